/* Other audit modules of the process. */
#ifndef BECALM_AUDITORS_H
#define BECALM_AUDITORS_H

#include "base.h"

/* Records an object of an audit module's namespace that was mapped before the program was
   announced. */
void auditors_open (const struct link_map *map);

/* True if the loader calls no other audit module for bindings or for calls; false also if that
   cannot be found out. MAP is that of the program, which was just announced. */
int auditors_are_harmless (const struct link_map *map);

#endif
