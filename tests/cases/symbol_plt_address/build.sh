echo 'int f(void) { return 1; } int (*p)(void) = f; int g(void) { return f(); }' > "$WORK/a.c"
echo 'int f(void), g(void); int (*q)(void); int main(void) { q = f; return g(); }' > "$WORK/main.c"
library a/liba.so -s liba.so -S "$WORK/a.c"
program prog -r "$OUT/a" -f "$OUT/a/liba.so" -f -no-pie -f -fno-pie -S "$WORK/main.c"
