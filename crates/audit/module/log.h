/* BECALM=log:FILE: each object and each lookup, a line each (docs/index-format.md). */
#pragma once

#include "base.h"

/* Logs a line (docs/index-format.md): WHAT, and the texts that follow, up to a NULL. COOKIE's address names the
   object in later lines; NULL for the process. */
void log_line (const char *what, const void *cookie, ...) __attribute__ ((sentinel));

/* BECALM=dump:FILE: writes every relocated slot of every object from the program on, if BECALM asks for it. */
void dump_slots (const struct link_map *program);
