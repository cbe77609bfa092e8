program prog -r "$OUT/a" -n liba.so -n libb.so
library a/liba.so -s liba.so -n libc2.so -n libd.so
library a/libb.so -s libb.so -n libe.so -n libc2.so
library a/libc2.so -s libc2.so -n libf.so
library a/libd.so -s libd.so -n liba.so
library a/libe.so -s libe.so
library a/libf.so -s libf.so
