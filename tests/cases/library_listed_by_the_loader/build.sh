library a/liba.so -s liba.so -R '$ORIGIN/../b' -n libb.so
library b/libb.so -s libb.so
