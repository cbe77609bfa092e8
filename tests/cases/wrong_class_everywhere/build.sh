program prog -R "$OUT/a:$OUT/b" -n liba.so
foreign_library a/liba.so 32
foreign_library b/liba.so 32
