program prog -R "$OUT/absent:$OUT/a" -n liba.so
library a/liba.so -s liba.so
