program prog -R "$OUT/a:$OUT/b:$OUT/a:$OUT/b" -n liba.so -n libb.so
mkdir "$OUT/a"
library b/libb.so -s libb.so
