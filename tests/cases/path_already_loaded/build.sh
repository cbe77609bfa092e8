program prog -R "$OUT/a" -n liba.so -n "$OUT/a/liba.so"
library a/liba.so
