echo 'int d = 7; int *p = &d;' > "$WORK/a.c"
echo 'extern int d; int main(void) { return d; }' > "$WORK/main.c"
library a/liba.so -s liba.so -S "$WORK/a.c"
program prog -r "$OUT/a" -f "$OUT/a/liba.so" -f -no-pie -f -fno-pie -S "$WORK/main.c"
