program prog -R "$OUT/a:$OUT/b" -n liba.so
mkdir "$OUT/a"
echo "/* GNU ld script */ INPUT ( -lc ) and some more to be long enough for a header" > "$OUT/a/liba.so"
library b/liba.so -s liba.so
