program prog -R "$OUT/a" -n libnowhere.so -n liba.so
library a/liba.so -s liba.so -R "$OUT/a:$OUT/b" -n libnowhere.so
library b/liba.so -s liba.so
