echo '__thread int t = 5; int g(void) { return t; }' > "$WORK/a.c"
echo 'extern __thread int t; int main(void) { return t; }' > "$WORK/main.c"
library a/liba.so -s liba.so -S "$WORK/a.c"
program prog -r "$OUT/a" -f "$OUT/a/liba.so" -S "$WORK/main.c"
