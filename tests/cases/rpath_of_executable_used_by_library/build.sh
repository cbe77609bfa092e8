program prog -r "$OUT/p" -n liba.so
library p/liba.so -s liba.so -n libb.so
library p/libb.so -s libb.so -n libc2.so
library p/libc2.so -s libc2.so
