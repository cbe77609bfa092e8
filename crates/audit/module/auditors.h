/* Other audit modules of the process. */
#pragma once

#include "base.h"

/* Records an object of an audit module's namespace that was mapped before the program was
   announced. */
void auditors_open (const struct link_map *map);

/* Finds out what the other audit modules do. MAP is that of the program, which was just announced. */
void auditors_init (const struct link_map *map);

/* What the loader calls of other audit modules, or may call, if that cannot be found out: */
extern unsigned auditors_found __attribute__ ((visibility ("hidden")));

/* functions for bindings or for calls; */
#define AUDITORS_HOOK 1u
/* la_objsearch. Such a module could act on the files that the loader tries (LA_SER_LIBPATH and so on). If this
   module answers a lookup, the loader tries no file. */
#define AUDITORS_SEARCH 2u
