echo 'int f(void) __attribute__((weak)); int main(void) { return f ? f() : 0; }' > "$WORK/main.c"
program prog -f -fPIC -S "$WORK/main.c" -l -z -l dynamic-undefined-weak
