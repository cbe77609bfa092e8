program prog -R "$OUT/p" -n liba.so
library p/liba.so -s liba.so -R "$OUT/a" -n libb.so
library p/libb.so -s libb.so -n libd.so
library a/libd.so -s libd.so
