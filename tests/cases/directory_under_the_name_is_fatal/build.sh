program prog -R "$OUT/a:$OUT/b" -n liba.so
mkdir -p "$OUT/a/liba.so"
library b/liba.so -s liba.so
