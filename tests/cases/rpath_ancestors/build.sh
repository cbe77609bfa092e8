program prog -r "$OUT/p" -n liba.so
library p/liba.so -s liba.so -r "$OUT/a" -n libb.so
library a/libb.so -s libb.so -r "$OUT/b" -n libc2.so
library p/libc2.so -s libc2.so
