program prog -R '$ORIGINAL/x:$ORIGIN_x:$ORIGIN-x:$ORIGIN.x:$ORIGIN/lib' -n liba.so
library lib/liba.so -s liba.so
