cat > "$WORK/a.c" <<'C'
int f(void) __attribute__((visibility("protected")));
int f(void) { return 1; }
int g(void) { return f(); }
C
echo 'int g(void); int f(void) { return 2; } int main(void) { return g() + f(); }' > "$WORK/main.c"
library a/liba.so -s liba.so -S "$WORK/a.c"
program prog -r "$OUT/a" -f "$OUT/a/liba.so" -f -rdynamic -S "$WORK/main.c"
