cat > "$WORK/u.c" <<'C'
__asm__(".data\n.globl u\n.type u, %gnu_unique_object\n.size u, 4\nu: .long 1\n.text");
extern int u;
int *NAME = &u;
C
library a/liba.so -s liba.so -f -DNAME=pa -S "$WORK/u.c"
library a/libb.so -s libb.so -f -DNAME=pb -S "$WORK/u.c"
program prog -r "$OUT/a" -f "$OUT/a/liba.so" -f "$OUT/a/libb.so"
