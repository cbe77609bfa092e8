program prog -R "$OUT/a" -l -z -l nodefaultlib -n liba.so -n libm.so.6
library a/liba.so -s liba.so
