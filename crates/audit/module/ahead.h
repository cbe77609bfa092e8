/* A start that waits for the disk, in a session that reads ahead (BECALM=ahead:BECALM). */
#pragma once

#include "base.h"

/* Looks whether the start waits for the disk, and then starts a becalm that reads ahead: called for
   each object of the start. */
void ahead_look (void);

/* Starts becalm, which makes the pages of this program for its next start (pages.c). */
void ahead_make_pages (void);

/* A start from which becalm learns which pages it touches (BECALM=learn:NAME). */

/* Begins, if the switch is set: called for the program. */
void learn_init (void);

/* Turns fault-around off for the mappings of an object. */
void learn_open (const struct link_map *map, int is_program);

/* Hands the descriptor to the process that learns, at the end of the start. */
void learn_finish (void);

/* Waits for a last look at the pages of the process when its last object is closed. */
void learn_close (int has_ended);
