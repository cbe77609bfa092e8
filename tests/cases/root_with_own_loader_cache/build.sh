root_file_system

program prog -n liba.so
library opt/x/liba.so -s liba.so
library opt/x/glibc-hwcaps/x86-64-v2/liba.so -s liba.so
library opt/y/liba.so -s liba.so
mkdir -p "$OUT/etc"; printf '/opt/x\n/opt/y\n' > "$OUT/etc/ld.so.conf"
/sbin/ldconfig -r "$OUT"
