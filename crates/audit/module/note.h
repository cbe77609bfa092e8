/* The resolution note of an object that the table does not know. */
#pragma once

#include "base.h"

/* Returns the path that the note of an object names for a needed string, if it is the first
   element of the list, the file exists, and the object's run path has only directories of
   indexed stores before it; else NULL. */
const char *note_ask (const struct link_map *map, int is_program, const char *run_path,
                      const char *needed);
