program prog -R "$OUT/a:$OUT/b" -n liba.so -n libb.so
mkdir "$OUT/a"; ln -s liba.so "$OUT/a/liba.so"
library b/liba.so -s liba.so
library b/libb.so -s libb.so
