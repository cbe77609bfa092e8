program prog -R "$OUT/a" -n linux-vdso.so.1 -n liba.so
library a/liba.so -s liba.so
