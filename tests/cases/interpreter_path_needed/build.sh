program prog -R "$OUT/a" -n /lib64/ld-linux-x86-64.so.2 -n liba.so
library a/liba.so -s liba.so
