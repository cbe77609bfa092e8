program prog -R "$OUT/a:$OUT/b" -n liba.so
program a/liba.so -n libb.so
library b/liba.so -s liba.so
