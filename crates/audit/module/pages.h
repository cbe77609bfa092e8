/* Ready pages (docs/pages.md): what the loader would write into the libraries of a start, in a file of
   pages that lie at chosen addresses until the next boot. */
#pragma once

#include "objects.h"

/* On other machines there are no functions, and no place has pages. */
#if defined __x86_64__
# define HAS_PAGES 1
#else
# define HAS_PAGES 0
#endif

/* Each member of the record of a program, in the file. */
struct pages_object
{
  /* 0 for an object that the kernel places. */
  uint64_t addr;
  uint32_t run, runs;
  uint32_t word, words;
  uint32_t rela, relas;
  /* Offset of the words that the loader fills for lazy binding, and of the dynamic section with the
     number of its words; 0 if there are none. */
  uint32_t got, dynamic, dynamic_words;
  uint32_t spare;
};

/* When the program is announced: opens its file of pages, and reserves the address space above a chosen
   place, so that the loader maps the libraries below it. */
void pages_begin (const struct table_bound_program *program);

/* When every object is mapped: gives each place its pages, if all objects are where the file expects
   them. */
void pages_arm (const struct table_bound_program *program);

/* Writes the relocations that the loader is given for a place with pages. */
struct rela *pages_entries (const struct place *place, struct rela *to);

/* Maps the pages of a place, and writes the words that other starts have otherwise. */
void pages_map (const struct place *place);

/* When the start is done, or left to the loader: gives the address space back. PROGRAM is the record by
   which the objects were bound, NULL if they were not. */
void pages_finish (const struct table_bound_program *program);

/* True if this start was made for its pages (BECALM=steer:). It waits to be read. */
int pages_wait (void);
