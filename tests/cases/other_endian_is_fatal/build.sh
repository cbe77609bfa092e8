program prog -R "$OUT/a:$OUT/b" -n liba.so
library a/liba.so -s liba.so
patch_byte a/liba.so 5 '\002'
library b/liba.so -s liba.so
