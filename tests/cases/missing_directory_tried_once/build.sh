program prog -R "$OUT/absent:$OUT/here" -n liba.so -n libb.so -n libc2.so
library here/liba.so -s liba.so
library here/libb.so -s libb.so
library here/libc2.so -s libc2.so
