program prog -R "$OUT/a" -n liba.so -n libb.so
library a/liba.so -s other.so
library a/libb.so -s libb.so -R "$OUT/elsewhere" -n liba.so
