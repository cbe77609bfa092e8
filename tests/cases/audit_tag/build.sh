printf '%s\n' 'unsigned int la_version(unsigned int v) { return v; }' > "$WORK/audit.c"
program prog -R "$OUT/a" -n liba.so -l --audit -l libaudit.so
library a/liba.so -s liba.so
library a/libaudit.so -s libaudit.so -S "$WORK/audit.c"
