program bin/prog -R '$ORIGIN/../lib' -n liba.so
library lib/liba.so -s liba.so -R '$ORIGIN/../more' -n libb.so
library more/libb.so -s libb.so
