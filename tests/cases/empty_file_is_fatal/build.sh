program prog -R "$OUT/a:$OUT/b" -n liba.so
library b/liba.so -s liba.so
mkdir "$OUT/a"; : > "$OUT/a/liba.so"
