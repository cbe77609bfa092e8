program prog -R "$OUT/a:$OUT/b" -n liba.so
library a/liba.so -s liba.so
chmod 0 "$OUT/a/liba.so"
library b/liba.so -s liba.so
