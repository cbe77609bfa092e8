/* Checks that the module's file is as long as its program headers say. */
#pragma once

#include "system.h"

/* Makes the kernel read the path in the last SIZE bytes before END; returns 0 if the file ends
   before them. The path is that of the first root. */
int file_end_is_there (const char *end, size_t size);

/* Returns the kernel's answer for that path, if PATH is the same; 0 if it is another path. */
int file_end_recall (const char *path, struct statx *found, long *result);

/* Forgets the answer, because the root may have changed. */
void file_end_forget (void);
