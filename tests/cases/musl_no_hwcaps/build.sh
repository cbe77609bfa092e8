program prog -R "$OUT/absent:$OUT/a" -n liba.so -n libb.so
library a/liba.so -s liba.so
library a/glibc-hwcaps/x86-64-v2/liba.so -s liba.so
library a/libb.so -s libb.so
