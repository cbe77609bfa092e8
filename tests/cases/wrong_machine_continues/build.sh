program prog -R "$OUT/a:$OUT/b" -n liba.so
library a/liba.so -s liba.so
machine a/liba.so 183
library b/liba.so -s liba.so
