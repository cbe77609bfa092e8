/* Writing bindings into objects, while the loader relocates them. */
#pragma once

#include "objects.h"

/* Finds the dynamic entries; returns 0 if the loader cannot be redirected. */
int place_find (struct place *place, const struct link_map *map);

/* False if another copy of this module has changed the entries since. */
int place_is_as_found (const struct place *place);

/* True if the machine's loader can be redirected. */
int apply_is_possible (void);

/* Returns the number of relocations that the loader is given for a place. */
uint64_t apply_count (const struct bindings *bindings);

/* Writes them; the first two make the loader call the module. Returns the end. */
struct rela *apply_entries (struct place *place, struct rela *to);

/* Makes the loader use the COUNT relocations at TO. */
void place_lead (struct place *place, const struct rela *to, uint64_t count);
void place_restore (struct place *place);
