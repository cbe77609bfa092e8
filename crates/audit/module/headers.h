/* The program headers of a loaded object. */
#pragma once

#include "base.h"

/* Returns the program headers. For the program the kernel gives their address; a library has
   them in its first page. If an object was linked for another address, that page may be missing
   or belong to another object, so the kernel checks it before it is read. */
struct headers headers_of (const struct link_map *map, int is_program);
