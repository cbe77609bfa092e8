/* Test lookups while glibc.rtld.resolution disables resolution notes.  */
#define IS_ENABLED false
#include "tst-resolution.c"
