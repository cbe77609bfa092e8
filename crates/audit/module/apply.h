/* Writing bindings into objects, while the loader relocates them. */
#pragma once

#include "objects.h"


/* Finds the dynamic entries; returns 0 if the loader cannot be redirected. */
int place_find (struct place *place, const struct link_map *map);

/* Writes the relocations that the loader is given for a place, of which the first two make it call the module, and
   makes it use them. Returns their end. */
struct rela *place_lead (struct place *place, struct rela *to);
void place_restore (struct place *place);
