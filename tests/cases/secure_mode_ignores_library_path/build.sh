program prog -R "$OUT/a" -n liba.so
library a/liba.so -s liba.so
library env/liba.so -s liba.so
chmod 4755 "$OUT/prog"
