program prog -R "$OUT/file:$OUT/a" -n liba.so -n libb.so
echo text > "$OUT/file"
library a/liba.so -s liba.so
library a/libb.so -s libb.so
