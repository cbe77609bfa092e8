/* Other audit modules of the process. */
#ifndef BECALM_AUDITORS_H
#define BECALM_AUDITORS_H

#include "base.h"

/* An object of an audit module's namespace was mapped, before the program was announced. */
void auditors_open (const struct link_map *map);

/* True if no other audit module has the loader call it for bindings or for calls; false as well if
   that cannot be found out. MAP is the program's, which was announced now. */
int auditors_are_harmless (const struct link_map *map);

#endif
