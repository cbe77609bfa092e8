program prog -n liba.so -n libb.so
library e/liba.so -s liba.so
library e/glibc-hwcaps/x86-64-v2/liba.so -s liba.so
library e/libb.so -s libb.so
