/* The module's check of itself. */
#pragma once

#include "system.h"

/* True if the module matches its checksum, or if there is none. */
int module_is_whole (void);

/* True if becalm recorded that the table has bindings. */
int module_has_bindings (void);

/* Returns the table's address, and the number of bytes from there on that the loader mapped. */
const unsigned char *table_place (uint64_t *length);

/* Makes the kernel read the path in the last SIZE bytes before END of the module's file; returns 0 if the file ends
   before them. The path is that of the first root. */
int file_end_is_there (const char *end, size_t size);

/* The kernel's answer for that path; the path is NULL if the answer does not count any more. */
extern struct first_root
{
  const char *path;
  struct statx found;
  long result;
} first_root __attribute__ ((visibility ("hidden")));
