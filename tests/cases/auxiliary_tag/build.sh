program prog -R "$OUT/a" -n libf.so
library a/libf.so -s libf.so -l --auxiliary -l libaux.so -R "$OUT/a" -n libn.so
library a/libaux.so -s libaux.so -R "$OUT/a" -n libdeep.so
library a/libn.so -s libn.so
library a/libdeep.so -s libdeep.so
