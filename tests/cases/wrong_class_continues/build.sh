program prog -R "$OUT/a:$OUT/b" -n liba.so -n libb.so
foreign_library a/liba.so 32
library b/liba.so -s liba.so
library a/libb.so -s libb.so
