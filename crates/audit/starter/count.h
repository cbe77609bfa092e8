/* How often a program is started. */
#pragma once

#include "system.h"

/* Adds a byte to the file FOLDER/NAME.starts, if it is one of USER's that crates/lib/src/on/counts.rs has
   made. Whatever fails, the start goes on. */
void count_start (const char *folder, const char *name, uint32_t user);
