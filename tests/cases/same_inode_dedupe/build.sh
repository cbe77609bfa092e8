program prog -R "$OUT/a:$OUT/b" -n libx.so -n liby.so -n libz.so -n libend.so
library a/libx.so -R "$OUT/deps" -n libdep.so
ln "$OUT/a/libx.so" "$OUT/a/liby.so"
mkdir "$OUT/b"; ln -s ../a/libx.so "$OUT/b/libz.so"
library deps/libdep.so -s libdep.so
library b/libend.so -s libend.so
