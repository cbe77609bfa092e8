program prog -r "$OUT/r" -n liba.so -n libb.so
library r/liba.so -s liba.so
library env/liba.so -s liba.so
library env/libb.so -s libb.so
