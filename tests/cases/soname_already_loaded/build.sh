program prog -R "$OUT/a" -n libreal.so -n libname.so.1
library a/libreal.so -s libname.so.1
