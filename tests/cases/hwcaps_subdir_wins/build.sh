program prog -R "$OUT/a:$OUT/b" -n liba.so -n libb.so
library a/liba.so -s liba.so
library a/glibc-hwcaps/x86-64-v2/liba.so -s liba.so
library a/glibc-hwcaps/unknown/liba.so -s liba.so
library b/libb.so -s libb.so
