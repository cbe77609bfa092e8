/* Test lookups with the resolution note of a program with DT_RPATH.  */
#define IS_RPATH true
#include "tst-resolution.c"
