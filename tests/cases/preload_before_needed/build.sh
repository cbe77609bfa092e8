program prog -R "$OUT/a" -n liba.so
library a/liba.so -s liba.so
library p/libp.so -s libp.so -R "$OUT/p" -n libq.so
library p/libq.so -s libq.so
