/* Whether the module's file reaches as far as its program headers say. */
#ifndef BECALM_FILE_END_H
#define BECALM_FILE_END_H

#include "system.h"

/* Has the kernel read the path in the last SIZE bytes of the mapping, from END on; 0 if the file
   ends before them. The path is that of the first root. */
int file_end_is_there (const char *end, size_t size);

/* Gives what the kernel said of that path, if PATH is the same; 0 if it is another. */
int file_end_recall (const char *path, struct statx *found, long *result);

/* Forgets it: the root may have changed. */
void file_end_forget (void);

#endif
