echo 'extern int d; int *p = &d;' > "$WORK/a.c"
library a/liba.so -s liba.so -S "$WORK/a.c"
program prog -r "$OUT/a" -f "$OUT/a/liba.so"
