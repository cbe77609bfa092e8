/* The loader cache, if it is another file than the indexed one. */
#pragma once

/* True if the cache still gives that path, and no other, for a needed string. */
int cache_still_says (const char *cache, const char *needed, const char *path);

/* Unmaps the cache, as the loader does at the end of a start and of each dlopen. */
void cache_forget (void);
