# The link editor would bind the reference itself for -Bsymbolic, so the tag is made of DT_SYMENT,
# which no loader reads.
echo 'extern int d; int *p = &d; int d = 1;' > "$WORK/a.c"
echo 'int d = 2; extern int *p; int main(void) { return *p; }' > "$WORK/main.c"
library a/liba.so -s liba.so -S "$WORK/a.c"
program prog -r "$OUT/a" -f "$OUT/a/liba.so" -f -rdynamic -S "$WORK/main.c"
