program prog -R '${ORIGIN/lib:${ORIGINX}/lib:${ORIGIN}/lib' -n liba.so
library lib/liba.so -s liba.so
