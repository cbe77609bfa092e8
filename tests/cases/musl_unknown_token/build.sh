program prog -R '$LIB:'"$OUT/a" -n liba.so
library a/liba.so -s liba.so
