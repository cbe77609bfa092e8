/* The resolution note of an object that the table does not know. */
#ifndef BECALM_NOTE_H
#define BECALM_NOTE_H

#include "base.h"

/* The path that the note of an object names for a needed string, if that is the first thing its
   list says, the file is there, and the object's run path has nothing but directories of indexed
   stores up to it; else NULL. */
const char *note_ask (const struct link_map *map, int is_program, const char *run_path,
                      const char *needed);

#endif
