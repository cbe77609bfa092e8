root_file_system

program prog -R /a -n liba.so
library a/liba.so -s liba.so
library p/libp.so -s libp.so
library p/libq.so -s libq.so
mkdir -p "$OUT/etc"; echo "/p/libp.so # text
/p/nope.so" > "$OUT/etc/ld.so.preload"
