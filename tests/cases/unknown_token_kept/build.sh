program prog -R "$OUT/"'$UNKNOWN'":$OUT/a\$:$OUT/b" -n liba.so -n libb.so
library '$UNKNOWN/liba.so' -s liba.so
library 'a$/libb.so' -s libb.so
