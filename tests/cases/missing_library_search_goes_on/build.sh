program prog -R "$OUT/a" -n libnowhere.so -n liba.so
library a/liba.so -s liba.so
