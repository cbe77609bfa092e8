echo 'int f(void) { return 1; } int g(void) { return f(); }' > "$WORK/a.c"
echo 'int g(void); int f(void) { return 2; } int main(void) { return g(); }' > "$WORK/main.c"
library a/liba.so -s liba.so -S "$WORK/a.c"
program prog -r "$OUT/a" -f "$OUT/a/liba.so" -f -rdynamic -S "$WORK/main.c"
