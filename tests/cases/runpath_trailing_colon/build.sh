program prog -R "$OUT/a:" -n liba.so
library here/liba.so -s liba.so
mkdir "$OUT/a"
