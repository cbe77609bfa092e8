program prog -R "$OUT/a:$OUT/b" -n liba.so
mkdir "$OUT/a"
$CC -c -o "$OUT/a/liba.so" -x c /dev/null
library b/liba.so -s liba.so
