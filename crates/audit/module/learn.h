/* A start from which becalm learns which pages it touches (BECALM=learn:NAME). */
#pragma once

#include "base.h"

/* Begins, if the switch is set: called for the program. */
void learn_init (void);

/* Turns fault-around off for the mappings of an object. */
void learn_open (const struct link_map *map, int is_program);

/* Hands the descriptor to the process that learns, at the end of the start. */
void learn_finish (void);

/* Waits for a last look at the pages of the process when its last object is closed. */
void learn_close (int has_ended);
