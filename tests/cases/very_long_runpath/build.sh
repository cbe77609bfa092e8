path=; i=0
while [ $i -lt 400 ]; do path=$path$OUT/d$i:; i=$((i+1)); done
program prog -R "$path$OUT/a" -n liba.so -n libb.so
mkdir "$OUT/d7" "$OUT/d399"
library a/liba.so -s liba.so
library d399/libb.so -s libb.so
