/* Calls that look files up by path: a stub before each, for the start-up objects of a program whose
   bindings come from the table. */
#ifndef BECALM_STUBS_H
#define BECALM_STUBS_H

#include "base.h"

/* An object of the start. */
void stubs_see (const struct link_map *map);

/* Every object of the start is as expected: finds what is to be redirected. */
void stubs_arm (void);

/* The start is left without, for this reason; the first one counts. */
void stubs_decline (const char *why);

/* The start is done. */
void stubs_finish (void);

/* True if calls of the object at ADDRESS into the one at DEFINER go through stubs. */
int stubs_serve (elf_word address, elf_word definer);

/* The stub of a function, or the function itself. */
elf_word stubs_redirect (elf_word function);

#endif
