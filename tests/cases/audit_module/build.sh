printf '%s\n' 'unsigned int la_version(unsigned int v) { return v; }' > "$WORK/audit.c"
program prog -R "$OUT/a" -n liba.so
library a/liba.so -s liba.so
library au/libaudit.so -s libaudit.so -S "$WORK/audit.c"
