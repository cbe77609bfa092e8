program prog -R "$OUT/a" -n liba.so -n libb.so
echo 'int data[65537] = {1};' > "$WORK/a.c"
library a/liba.so -s liba.so -S "$WORK/a.c"
library a/libb.so -s libb.so
head -c 200000 "$OUT/a/liba.so" > "$WORK/cut"; cp "$WORK/cut" "$OUT/a/liba.so"
