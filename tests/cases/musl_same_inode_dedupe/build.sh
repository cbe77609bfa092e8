program prog -R "$OUT/a" -n libx.so -n liby.so -n libz.so
library a/libx.so
ln "$OUT/a/libx.so" "$OUT/a/liby.so"
ln -s libx.so "$OUT/a/libz.so"
