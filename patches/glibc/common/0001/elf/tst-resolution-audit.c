/* Test that auditors are asked about the libraries of a resolution note.  */
#define IS_AUDITED true
#include "tst-resolution.c"
