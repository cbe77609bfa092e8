program prog -R '$ORIGIN/o:'"$OUT/a" -n liba.so
library a/liba.so -s liba.so
library o/liba.so -s liba.so
chmod 4755 "$OUT/prog"
