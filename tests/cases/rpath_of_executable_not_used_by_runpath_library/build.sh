program prog -r "$OUT/p" -n liba.so
library p/liba.so -s liba.so -R "$OUT/q" -n libb.so
library p/libb.so -s libb.so
