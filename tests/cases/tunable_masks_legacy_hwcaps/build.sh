program prog -R "$OUT/a" -n liba.so
library a/liba.so -s liba.so
library a/x86_64/x86_64/liba.so -s liba.so
