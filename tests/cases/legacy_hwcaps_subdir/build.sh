program prog -R "$OUT/a" -n liba.so -n libb.so
library a/liba.so -s liba.so
library a/tls/liba.so -s liba.so
library a/libb.so -s libb.so
library a/x86_64/libb.so -s libb.so
