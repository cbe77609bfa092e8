root_file_system

program prog -R /a -n liba.so -n libnowhere.so
library a/liba.so -s liba.so
