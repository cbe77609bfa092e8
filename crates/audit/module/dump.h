/* BECALM=dump:FILE: every relocated slot of the start. */
#pragma once

#include "base.h"

/* Writes the slots of every object from the program on, if BECALM asks for it. */
void dump_slots (const struct link_map *program);
