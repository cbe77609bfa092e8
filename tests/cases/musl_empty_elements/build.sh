program prog -R "$OUT/a::$OUT/b:" -n liba.so -n libb.so
library here/liba.so -s liba.so
library b/libb.so -s libb.so
mkdir "$OUT/a"
