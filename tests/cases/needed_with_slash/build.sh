program prog -R "$OUT/a" -n ./liba.so -n "$OUT/b/libb.so"
library here/liba.so
library b/libb.so
