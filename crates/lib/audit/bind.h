/* Recognises a start whose bindings are known, and has them applied. */
#ifndef BECALM_BIND_H
#define BECALM_BIND_H

#include "base.h"

/* True if this machine's starts may be bound, and the table has any. */
int bind_is_possible (void);

/* The program was announced; PATH is its own, as the table knows programs. 0 if it does not. */
int bind_init (const struct link_map *map, const char *path);

/* An object of the namespace of the program was mapped, the program included. */
void bind_open (const struct link_map *map);

/* The start is done. */
void bind_finish (void);

#endif
