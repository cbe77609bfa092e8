program prog -R "$OUT/a" -n liba.so
library a/liba.so -s liba.so
library p/other.so -s liba.so
