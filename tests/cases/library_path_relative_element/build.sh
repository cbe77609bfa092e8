program prog -n liba.so
library here/sub/liba.so -s liba.so
