program prog -R "$OUT/a" -n ld-linux-x86-64.so.2 -n liba.so
library a/liba.so -s liba.so -n ld-linux-x86-64.so.2
library a/ld-linux-x86-64.so.2 -s ld-linux-x86-64.so.2
