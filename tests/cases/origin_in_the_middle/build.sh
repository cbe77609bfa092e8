program prog -R "/./"'$ORIGIN/lib' -n liba.so
library lib/liba.so -s liba.so
