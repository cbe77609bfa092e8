echo 'static int a, b, c; int *p[] = { &a, &b, 0, &c }; int f(void) { return *p[0]; }' > "$WORK/a.c"
echo 'int f(void); int main(void) { return f(); }' > "$WORK/main.c"
library a/liba.so -s liba.so -S "$WORK/a.c" -l -z -l pack-relative-relocs
program prog -r "$OUT/a" -f "$OUT/a/liba.so" -S "$WORK/main.c"
