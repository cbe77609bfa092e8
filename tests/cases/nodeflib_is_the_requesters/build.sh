program prog -R "$OUT/a" -n liba.so -n libm.so.6
library a/liba.so -s liba.so -l -z -l nodefaultlib -n libnowhere.so
