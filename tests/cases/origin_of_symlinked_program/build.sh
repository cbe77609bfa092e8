program real/prog -R '$ORIGIN/lib' -n liba.so
library real/lib/liba.so -s liba.so
library bin/lib/liba.so -s liba.so
ln -s ../real/prog "$OUT/bin/prog"
