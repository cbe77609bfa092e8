program prog -R "$OUT/a" -n liba.so
library a/liba.so -s liba.so -n "$OUT/prog"
