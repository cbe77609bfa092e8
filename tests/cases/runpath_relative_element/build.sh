program prog -R "sub:$OUT/a" -n liba.so -n libb.so
library here/sub/liba.so -s liba.so
library a/libb.so -s libb.so
