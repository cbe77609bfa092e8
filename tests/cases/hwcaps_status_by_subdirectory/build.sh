program prog -R "$OUT/a" -n liba.so -n libb.so -n libc2.so
library a/liba.so -s liba.so
library a/libb.so -s libb.so
library a/libc2.so -s libc2.so
mkdir -p "$OUT/a/glibc-hwcaps/x86-64-v2"
