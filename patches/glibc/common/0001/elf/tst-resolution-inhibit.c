/* Test lookups while --inhibit-rpath disables the run path of the program.  */
#define IS_ENABLED false
#define IS_INHIBITED true
#include "tst-resolution.c"
