/* The resolution note of an object that the table does not know. */
#ifndef BECALM_NOTE_H
#define BECALM_NOTE_H

#include "base.h"

/* The path that the note of an object names for a needed string, where that is the first
   thing its list says and the file is there; else NULL. */
const char *note_ask (const struct link_map *map, int is_program, const char *needed);

#endif
