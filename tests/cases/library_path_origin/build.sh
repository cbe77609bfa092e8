program bin/prog -n liba.so
library bin/d/liba.so -s liba.so -n libb.so
library bin/d/libb.so -s libb.so
