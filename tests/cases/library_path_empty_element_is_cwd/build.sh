program prog -n liba.so
library here/liba.so -s liba.so
mkdir "$OUT/c"
