program prog -R "$OUT/a" -n 'lib$PLATFORM.so' -n liba.so
library a/liba.so -s liba.so
