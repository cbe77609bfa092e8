program prog -n liba.so
library env/liba.so -s liba.so -R "$OUT/run" -n libb.so
library env/libb.so -s libb.so
library run/libb.so -s libb.so
