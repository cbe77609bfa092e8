long=$(printf '%0300d' 0)
program prog -R "$OUT/a:$OUT/b" -n "lib$long.so" -n liba.so
mkdir "$OUT/a"
library b/liba.so -s liba.so
