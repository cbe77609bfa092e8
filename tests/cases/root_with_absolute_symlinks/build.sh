root_file_system

program prog -R /link -n liba.so
library real/liba.so -s liba.so
ln -s /real "$OUT/link"
