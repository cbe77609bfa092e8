program prog -R "$OUT/p" -n liba.so -l --depaudit -l "$OUT/r"
library p/liba.so -s liba.so -n libb.so
library r/libb.so -s libb.so
