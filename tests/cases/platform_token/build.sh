program prog -R "$OUT/"'$PLATFORM'":$OUT/"'${PLATFORM}/sub'":$OUT/a" -n liba.so
library a/liba.so -s liba.so
