/* Writing bindings into objects, while the loader relocates them. */
#ifndef BECALM_APPLY_H
#define BECALM_APPLY_H

#include "bound.h"

/* A relocation with an explicit addend. */
struct rela
{
  elf_word offset, info;
  elf_sword addend;
};

/* The dynamic entries that lead the loader to the relocations of an object. */
enum place_entry
{
  PLACE_RELA,
  PLACE_RELASZ,
  PLACE_RELACOUNT,
  PLACE_PLTRELSZ,
  PLACE_ENTRIES,
};

/* An object of the start. */
struct place
{
  elf_word addr;
  /* NULL for an object that is left to the loader. */
  elf_dyn *entries[PLACE_ENTRIES];
  elf_word saved[PLACE_ENTRIES];
  /* What the loader adds to an address of the dynamic section when it uses it. */
  elf_word added_later;
  const struct table_member *member;
};

/* What every place of a start shares. */
struct start
{
  struct place *places;
  /* Load addresses by bound object. */
  const elf_word *bases;
  /* Room for the addresses of one object's targets. */
  elf_word *targets;
  /* LD_BIND_NOW. */
  int bind_now;
  /* How many places the loader came to. */
  uint32_t applied;
};

extern struct start start __attribute__ ((visibility ("hidden")));

/* Finds the dynamic entries; 0 if the loader cannot be led. */
int place_find (struct place *place, const struct link_map *map);

/* False if another copy of this module has led the loader elsewhere since. */
int place_is_as_found (const struct place *place);

/* True if the machine's loader can be led so. */
int apply_is_possible (void);

/* How many relocations the loader is given for a place. */
uint64_t apply_count (const struct bindings *bindings);

/* Writes them; the first two have the loader call the module. Returns the end. */
struct rela *apply_entries (struct place *place, struct rela *to);

/* Leads the loader to COUNT relocations, and back. */
void place_lead (struct place *place, const struct rela *to, uint64_t count);
void place_restore (struct place *place);

#endif
