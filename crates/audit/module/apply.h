/* Writing bindings into objects, while the loader relocates them. */
#pragma once

#include "objects.h"

/* Finds the dynamic entries; returns 0 if the loader cannot be redirected. */
int place_find (struct place *place, const struct link_map *map);

/* True if the machine's loader can be redirected. */
int apply_is_possible (void);

/* Writes the relocations that the loader is given for a place; the first two make it call the module. Returns
   the end. */
struct rela *apply_entries (struct place *place, struct rela *to);

/* Makes the loader use the COUNT relocations at TO. */
void place_lead (struct place *place, const struct rela *to, uint64_t count);
void place_restore (struct place *place);
