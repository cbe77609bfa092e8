program prog -R "$OUT/run" -n liba.so
library run/liba.so -s liba.so
library env/liba.so -s liba.so
