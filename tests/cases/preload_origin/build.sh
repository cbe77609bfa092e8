program bin/prog -R "$OUT/a" -n liba.so
library a/liba.so -s liba.so
library bin/libp.so -s libp.so
