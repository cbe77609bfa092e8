program prog -R "$OUT/link" -n liba.so
library real/liba.so -s liba.so -R '$ORIGIN/deps' -n libb.so
library real/deps/libb.so -s libb.so
library link/deps/libb.so -s libb.so
ln -s ../real/liba.so "$OUT/link/liba.so"
