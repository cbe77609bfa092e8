echo 'int f(void) { return 1; } int g(void) { return 2; } int h(void) { return 3; }' > "$WORK/a.c"
echo 'int h(void); int main(void) { return h(); }' > "$WORK/main.c"
library a/liba.so -s liba.so -S "$WORK/a.c" -l --hash-style=sysv
program prog -r "$OUT/a" -f "$OUT/a/liba.so" -S "$WORK/main.c"
