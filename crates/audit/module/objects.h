/* The objects of a start, and how far the loader has come. */
#pragma once

#include "bound.h"

/* A relocation with an explicit addend. */
struct rela
{
  elf_word offset, info;
  elf_sword addend;
};

/* The dynamic entries by which the loader finds the relocations of an object. */
enum place_entry
{
  PLACE_RELA,
  PLACE_RELASZ,
  PLACE_RELACOUNT,
  PLACE_PLTRELSZ,
  PLACE_ENTRIES,
};

struct pages_object;

/* An object of the start. */
struct place
{
  elf_word addr;
  /* NULL for an object whose relocations are left to the loader. */
  elf_dyn *entries[PLACE_ENTRIES];
  elf_word saved[PLACE_ENTRIES];
  /* The value that the loader adds to an address of the dynamic section when it uses it. */
  elf_word added_later;
  /* The loader can be redirected. */
  int is_found;
  const struct table_member *member;
  /* The relocations that the loader is given instead of its own; NULL before, or if there are none. */
  const struct rela *lent;
  uint64_t lent_count;
  /* Its pages (pages.c); NULL if its words are written. */
  const struct pages_object *pages;
};

/* Data shared by every place of a start. */
struct start
{
  struct place *places;
  /* Load addresses by bound object. */
  elf_word *bases;
  /* Space for the addresses of one object's targets. */
  elf_word *targets;
  /* The times of an object's file differ, and its tables are the same: its data may be others. */
  int has_other_times;
  /* The number of places that the loader has relocated. */
  uint32_t applied;
};

extern struct start start __attribute__ ((visibility ("hidden")));
