library a/liba.so -s liba.so -r "$OUT/b" -n libb.so
library b/libb.so -s libb.so -n libd.so
library b/libd.so -s libd.so
