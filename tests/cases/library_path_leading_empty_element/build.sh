program prog -n liba.so
library here/liba.so -s liba.so
library c/liba.so -s liba.so
