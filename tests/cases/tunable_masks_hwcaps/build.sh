program prog -R "$OUT/a" -n liba.so
library a/liba.so -s liba.so
library a/glibc-hwcaps/x86-64-v3/liba.so -s liba.so
