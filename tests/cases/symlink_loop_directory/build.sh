program prog -R "$OUT/a:$OUT/b" -n liba.so
ln -s a "$OUT/a"
library b/liba.so -s liba.so
