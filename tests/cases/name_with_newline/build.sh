dir=$(printf 'a\n      1234:\tb')
program "$dir/prog" -R '$ORIGIN/lib:$ORIGIN' -n liba.so
library "$dir/liba.so" -s liba.so -n "$(printf 'lib\n\001 [0];x.so')"
