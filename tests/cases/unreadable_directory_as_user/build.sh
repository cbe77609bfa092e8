program prog -R "$OUT/a:$OUT/a/sub:$OUT/b" -n liba.so -n libb.so
library a/sub/liba.so -s liba.so
chmod 700 "$OUT/a"
library b/liba.so -s liba.so
library b/libb.so -s libb.so
