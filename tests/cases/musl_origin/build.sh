program bin/prog -R '$ORIGIN/../lib:${ORIGIN}/../lib2' -n liba.so -n libb.so
library lib/liba.so -s liba.so -R '$ORIGIN/deps' -n libd.so
library lib/deps/libd.so -s libd.so
library lib2/libb.so -s libb.so
