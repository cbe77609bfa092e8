program prog -R "$OUT/a" -n libm.so -n libpthread.so.0 -n liba.so
library a/liba.so -s liba.so
library a/libm.so -s libm.so
library a/libpthread.so.0 -s libpthread.so.0
