/* Calls that look up files by path: a stub before each, for the startup objects of a program
   whose bindings come from the table. */
#pragma once

#include "base.h"

/* True if lookups are to be answered in this process. */
int stubs_are_wanted (void);

/* Called for each object of the start. */
void stubs_see (const struct link_map *map);

/* Called when every object of the start is as expected: finds the functions to redirect. */
void stubs_arm (void);

/* Leaves the start without stubs, for this reason; the first reason counts. */
void stubs_decline (const char *why);

/* Called when the start is done. */
void stubs_finish (void);

/* True if calls of the object at ADDRESS into the one at DEFINER go through stubs. */
int stubs_serve (elf_word address, elf_word definer);

/* Returns the stub of a function, or the function itself. */
elf_word stubs_redirect (elf_word function);
