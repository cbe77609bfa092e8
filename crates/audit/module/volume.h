/* The identity of file systems, and the names in directories (docs/identity.md). */
#pragma once

#include "system.h"

/* Returns the number of the file system that the file at PATH is on, 0 if it is not known. FOUND is
   its statx. IS_PASSING becomes true if another one may be mounted there later. */
uint64_t volume_now (const struct statx *found, const char *path, int *is_passing);

/* Does the same for the callers that the loader's lock serialises, with one look at each file system
   in a batch of lookups. */
uint64_t volume_of (const struct statx *found, const char *path);
void volumes_forget (void);

/* Returns the hash of the names in a directory, 0 if it cannot be read or has too many. */
uint64_t listing_of (const char *path);
