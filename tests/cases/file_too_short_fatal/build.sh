program prog -R "$OUT/a:$OUT/b" -n liba.so
library b/liba.so -s liba.so
mkdir "$OUT/a"; head -c 40 "$OUT/b/liba.so" > "$OUT/a/liba.so"
