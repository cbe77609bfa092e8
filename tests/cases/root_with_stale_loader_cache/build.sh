root_file_system

program prog -n liba.so -n libb.so
library opt/x/liba.so -s liba.so
library opt/x/libb.so -s libb.so
library lib/liba.so -s liba.so
mkdir -p "$OUT/etc"; printf '/opt/x\n' > "$OUT/etc/ld.so.conf"
/sbin/ldconfig -r "$OUT"
rm "$OUT/opt/x/liba.so" "$OUT/lib/liba.so"
library usr/lib/liba.so -s liba.so
