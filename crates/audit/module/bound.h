/* The records of programs whose bindings are known (docs/index-format.md). */
#pragma once

#include "table.h"

/* The words of an object that a block writes, ascending, in the format of DT_RELR with numbers of 32
   bits. An even number is the offset of a word. Each odd number after it describes the next 31 words:
   bit N, from 1 to 31, is set if the Nth of them is written. */
struct words
{
  uint32_t count;
  const uint32_t *at, *end;
};

/* A block of relatives. */
struct relatives
{
  /* For each word, the value to add to the load address. */
  const uint32_t *values;
  struct words words;
};

struct definer
{
  /* Index of a bound object, or ABSOLUTE. */
  uint32_t object;
  uint32_t target_count;
};

/* The values of its targets do not depend on a load address. */
#define ABSOLUTE UINT32_MAX

/* A relocation that the loader does itself. */
struct residual
{
  uint32_t offset, symbol, type;
  int32_t addend;
};

/* A function that a resolver of the object at TARGET chooses. */
struct indirect
{
  uint32_t offset, target;
};

/* A block of bindings. */
struct bindings
{
  uint32_t definer_count, target_count;
  uint32_t residual_count, indirect_count, lazy_count;
  uint32_t flags;
  const struct definer *definers;
  /* Distances from the load addresses of the definers, in their order. */
  const int32_t *targets;
  const struct residual *residuals;
  const struct indirect *indirects;
  /* PLT slots that stay lazy: offsets, ascending as those of the indirects. One that is in both
     lists has a resolver. */
  const uint32_t *lazies;
  /* For each slot, the index of its target, in 16 or 32 bits. */
  const void *slot_targets;
  struct words slots;
};

/* Indexes of targets have 32 bits. */
#define BINDINGS_WIDE 1u

/* Returns the first record of the program at PATH, or the one after BEFORE, whose start has other objects, with its
   members checked; NULL if there is none. */
const struct table_bound_program *bound_program (const char *path, const struct table_bound_program *before);

const struct table_member *bound_members (const struct table_bound_program *program);

/* Reads a block; returns 0 if its contents are invalid. Its checksum is compared unless the block IS_CHECKED. */
int bound_relatives (uint32_t block, int is_checked, struct relatives *result);
int bound_bindings (uint32_t block, int is_checked, struct bindings *result);
