program prog -r "$OUT/a" -n liba.so
library a/liba.so -s liba.so -n libb.so
library a/libb.so -s libb.so -n liba.so
