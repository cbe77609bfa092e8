program 'a [0]; b/prog' -R '$ORIGIN/l (x)' -n 'lib a [0].so'
library 'a [0]; b/l (x)/lib a [0].so'
