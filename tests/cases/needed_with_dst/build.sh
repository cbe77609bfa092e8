program prog -n '$ORIGIN/d/liba.so'
library d/liba.so -n '${ORIGIN}/e/libb.so'
library d/e/libb.so
