printf '%s\n' '#include <dlfcn.h>' 'int main(void) { return !dlopen("libd.so", RTLD_NOW); }' > "$WORK/main.c"
program prog -R "$OUT/a" -n liba.so -S "$WORK/main.c"
library a/liba.so -s liba.so
library a/libd.so -s libd.so
