cat > "$WORK/a.c" <<'C'
int f1(void) { return 1; }
int f2(void) { return 2; }
__asm__(".symver f1, f@V1\n.symver f2, f@@V2");
C
echo 'V1 { }; V2 { } V1;' > "$WORK/map"
echo 'int f(void) { return 1; }' > "$WORK/old.c"
echo 'int f(void); int main(void) { return f(); }' > "$WORK/main.c"
library old/liba.so -s liba.so -S "$WORK/old.c"
library a/liba.so -s liba.so -S "$WORK/a.c" -l --version-script="$WORK/map"
program prog -r "$OUT/a" -f "$OUT/old/liba.so" -S "$WORK/main.c"
