program prog -n libnowhere1.so -n libnowhere2.so
