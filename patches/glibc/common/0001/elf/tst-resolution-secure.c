/* Test lookups in secure execution mode.  */
#define IS_ENABLED false
#define IS_SECURE true
#include "tst-resolution.c"
