program prog -r "$OUT/r" -n liba.so
library r/liba.so -s liba.so
library env/liba.so -s liba.so
