/* The records of programs whose bindings are known (docs/index-format.md). */
#ifndef BECALM_BOUND_H
#define BECALM_BOUND_H

#include "table.h"

/* A block of relatives: values, and the words of the object they are written to. */
struct relatives
{
  uint32_t count;
  /* Added to the load address. */
  const uint32_t *values;
  const unsigned char *runs, *runs_end;
};

struct definer
{
  /* Index of a bound object, or ABSOLUTE. */
  uint32_t object;
  uint32_t target_count;
};

/* The values of its targets are not added to any load address. */
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
  uint32_t definer_count, target_count, slot_count;
  uint32_t residual_count, indirect_count, lazy_count;
  uint32_t flags;
  const struct definer *definers;
  /* Distances from the load addresses of the definers, in their order. */
  const int32_t *targets;
  const struct residual *residuals;
  const struct indirect *indirects;
  /* PLT slots that stay lazy: offsets. */
  const uint32_t *lazies;
  /* Of each slot the index of its target: 16 bits, or 32. */
  const void *slot_targets;
  const unsigned char *runs, *runs_end;
};

/* Indexes of targets have 32 bits. */
#define BINDINGS_WIDE 1u

/* The record of that program, its members checked; NULL if there is none. */
const struct table_bound_program *bound_program (const char *path);

const struct table_member *bound_members (const struct table_bound_program *program);

/* A checked record, NULL if it is damaged. */
const struct table_bound_object *bound_object (uint32_t index, const char **path);

uint32_t bound_object_count (void);

/* True if nothing in a block is damaged; each is read once for that. */
int bound_block_is_whole (uint32_t block);

/* Reads a block that is whole; 0 if it is not what it should be. */
int bound_relatives (uint32_t block, struct relatives *result);
int bound_bindings (uint32_t block, struct bindings *result);

#endif
