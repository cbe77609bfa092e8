/* Recognises a start whose bindings are known, and applies them. */
#pragma once

#include "base.h"

/* Called when the program is announced; PATH is its path in the table. Returns 0 if the table
   does not have the program. */
int bind_init (const char *path);

/* Called when an object of the program's namespace is mapped, the program included. */
void bind_open (const struct link_map *map);

/* Called when the start is done. */
void bind_finish (void);
