program prog -R "$OUT/a" -n liba.so
library a/liba.so -s liba.so
library p/libp.so -s libp.so -n libq.so -R "$OUT/p"
library p/libq.so -s libq.so
