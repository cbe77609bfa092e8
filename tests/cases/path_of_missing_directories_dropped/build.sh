program prog -R "$OUT/x:$OUT/y" -n liba.so -n libb.so
