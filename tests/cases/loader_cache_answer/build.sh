program prog -R "$OUT/a" -n libm.so.6
mkdir "$OUT/a"
