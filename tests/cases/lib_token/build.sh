program prog -R "$OUT/"'$LIB'":$OUT/"'${LIB}/sub'":$OUT/a" -n liba.so
library a/liba.so -s liba.so
