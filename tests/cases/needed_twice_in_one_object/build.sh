program prog -R "$OUT/a" -n liba.so
library a/liba.so -s liba.so -R "$OUT/a" -n libb.so -n libx.so
library a/libb.so -s libb.so
