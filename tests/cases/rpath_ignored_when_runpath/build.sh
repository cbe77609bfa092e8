program prog -r "$OUT/p" -n liba.so
library p/liba.so -s liba.so -R "$OUT/run" -l --depaudit -l "$OUT/r" -n libb.so
library p/libb.so -s libb.so
library r/libb.so -s libb.so
library run/libb.so -s libb.so
