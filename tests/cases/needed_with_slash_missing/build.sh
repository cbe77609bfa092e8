program prog -R "$OUT/a" -n "$OUT/absent/liba.so" -n libb.so
library a/libb.so -s libb.so
