/* The loader cache, where it is another file than the one that was indexed. */
#ifndef BECALM_CACHE_H
#define BECALM_CACHE_H

/* True where the cache still gives that path, and that alone, for a needed string. */
int cache_still_says (const char *cache, const char *needed, const char *path);

/* Lets go of it, as the loader does at the end of a start and of each dlopen. */
void cache_forget (void);

#endif
