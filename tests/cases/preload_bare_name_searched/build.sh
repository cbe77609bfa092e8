program prog -R "$OUT/a" -n liba.so
library a/liba.so -s liba.so
library a/libp.so -s libp.so
