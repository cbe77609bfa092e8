program prog -n liba.so -n libb.so
library a/liba.so -s liba.so
library b/libb.so -s libb.so
mkdir "$OUT/c"
