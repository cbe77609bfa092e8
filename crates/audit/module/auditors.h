/* Other audit modules of the process. */
#pragma once

#include "base.h"

/* Records an object of an audit module's namespace that was mapped before the program was
   announced. */
void auditors_open (const struct link_map *map);

/* Finds out what the other audit modules do. MAP is that of the program, which was just announced. */
void auditors_init (const struct link_map *map);

/* True if the loader calls another audit module for bindings or for calls, or if that cannot be
   found out. */
int auditors_have_hooks (void);

/* True if the loader passes lookups to another audit module, or if that cannot be found out. Such a
   module could act on the files that the loader tries (LA_SER_LIBPATH and so on). If this module
   answers a lookup, the loader tries no file. */
int auditors_search (void);
