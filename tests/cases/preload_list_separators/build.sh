program prog -R "$OUT/a" -n liba.so
library a/liba.so -s liba.so
library a/libp.so -s libp.so
library a/libq.so -s libq.so
library a/libr.so -s libr.so
