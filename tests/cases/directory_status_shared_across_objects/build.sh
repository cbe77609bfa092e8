program prog -R "$OUT/absent:$OUT/here" -n liba.so
library here/liba.so -s liba.so -R "$OUT/absent:$OUT/here:$OUT/more" -n libb.so
library more/libb.so -s libb.so
