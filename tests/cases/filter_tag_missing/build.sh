program prog -R "$OUT/a" -n libf.so
library a/libf.so -s libf.so -l --filter -l libtarget.so -R "$OUT/a" -n libn.so
library a/libn.so -s libn.so
