program prog -R "$OUT//a:$OUT/a:$OUT/./a:$OUT/b" -n liba.so
mkdir "$OUT/a"
library b/liba.so -s liba.so
