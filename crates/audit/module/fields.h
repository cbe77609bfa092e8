/* Text files of the kernel. */
#pragma once

#include "base.h"

/* The room for a field, with the zero at its end. */
#define FIELD_SIZE 512u

/* Reads the fields that blanks, tabs and line ends separate. SEE gets the number of each in its line, from 0, its
   text, as far as there is room, and its whole length; the rest is not read if it returns 1. Returns 0 if all was
   read, 1 if SEE did not want the rest, else a negative number. */
long read_fields (const char *path, int (*see) (void *context, unsigned number, const char *text, size_t length),
                  void *context);
