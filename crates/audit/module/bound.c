/* Reads the table's records of bindings. The checksum of a block covers all of it, so that no
   word of a damaged table is written into an object. */
#include "bound.h"
#include "hash.h"

_Static_assert (sizeof (struct table_bound_program) == 40, "as becalm writes it");
_Static_assert (sizeof (struct table_bound_object) == 64, "as becalm writes it");
_Static_assert (sizeof (struct table_member) == 16, "as becalm writes it");
_Static_assert (sizeof (struct table_block) == 16, "as becalm writes it");
_Static_assert (sizeof (struct residual) == 16, "as becalm writes it");

const struct table_bound_program *
bound_program (const char *path, const struct table_bound_program *before)
{
  const char *known;
  const struct sections *programs = &sections[SECTION_BOUND_PROGRAMS], *members = &sections[SECTION_MEMBERS];
  const struct table_bound_program *all = programs->records;
  const uint32_t wanted = before != NULL ? before->path_hash : (uint32_t) hash_bytes (0, path, strlen (path));
  uint32_t index = before != NULL ? (uint32_t) (before - all) + 1
                                  : table_first_of (all, programs->count, sizeof *all, 4, wanted);
  if (before != NULL)
    path = table_string (before->path);
  for (; members->records != NULL && index < programs->count && all[index].path_hash == wanted; index++)
    {
      const struct table_bound_program *program = table_record (SECTION_BOUND_PROGRAMS, index, &known);
      if (program != NULL && text_equal (known, path)
          && (uint64_t) program->members + program->member_count <= members->count
          && program->members_check
                 == (uint32_t) hash_bytes (0, bound_members (program),
                                           program->member_count * sizeof (struct table_member)))
        return program;
    }
  return NULL;
}

const struct table_member *
bound_members (const struct table_bound_program *program)
{
  return (const struct table_member *) sections[SECTION_MEMBERS].records + program->members;
}

/* Returns the words of a block, NULL if they are not in the table, or damaged. */
static const uint32_t *
block_words (uint32_t index, int is_checked, const struct table_block **block)
{
  const struct sections *words = &sections[SECTION_BLOCK_WORDS];
  *block = (const struct table_block *) sections[SECTION_BLOCKS].records + index;
  if (index >= sections[SECTION_BLOCKS].count || (uint64_t) (*block)->at + (*block)->count > words->count)
    return NULL;
  const uint32_t *first = (const uint32_t *) words->records + (*block)->at;
  return is_checked || hash_block (index, first, 4 * (size_t) (*block)->count) == (*block)->hash ? first : NULL;
}

int
bound_relatives (uint32_t index, int is_checked, struct relatives *result)
{
  const struct table_block *block;
  const uint32_t *words = block_words (index, is_checked, &block);
  if (words == NULL || block->count < 1 || 1 + (uint64_t) words[0] > block->count)
    return 0;
  result->values = words + 1;
  result->words = (struct words) { words[0], words + 1 + words[0], words + block->count };
  return 1;
}

/* True if the definers have all targets, the objects of the definers exist, and the targets of the indirects. */
static int
targets_fit (const struct bindings *b)
{
  uint64_t targets = 0;
  for (uint32_t i = 0; i < b->definer_count; i++)
    {
      if (b->definers[i].object != ABSOLUTE && b->definers[i].object >= sections[SECTION_BOUND_OBJECTS].count)
        return 0;
      targets += b->definers[i].target_count;
    }
  for (uint32_t i = 0; i < b->indirect_count; i++)
    if (b->indirects[i].target >= b->target_count)
      return 0;
  return targets == b->target_count;
}

int
bound_bindings (uint32_t index, int is_checked, struct bindings *result)
{
  const uint32_t header = 7;
  const struct table_block *block;
  const uint32_t *words = block_words (index, is_checked, &block);
  if (words == NULL || block->count < header)
    return 0;
  struct bindings b = { .definer_count = words[0], .target_count = words[1],
                        .residual_count = words[3], .indirect_count = words[4],
                        .lazy_count = words[5], .flags = words[6] };
  uint32_t slot_count = words[2];
  uint64_t slot_words = b.flags & BINDINGS_WIDE ? slot_count : ((uint64_t) slot_count + 1) / 2;
  uint64_t at = header;
  b.definers = (const struct definer *) (words + at);
  at += 2 * (uint64_t) b.definer_count;
  b.targets = (const int32_t *) (words + at);
  at += b.target_count;
  b.residuals = (const struct residual *) (words + at);
  at += 4 * (uint64_t) b.residual_count;
  b.indirects = (const struct indirect *) (words + at);
  at += 2 * (uint64_t) b.indirect_count;
  b.lazies = words + at;
  at += b.lazy_count;
  b.slot_targets = words + at;
  at += slot_words;
  if (at > block->count)
    return 0;
  b.slots = (struct words) { slot_count, words + at, words + block->count };
  *result = b;
  return targets_fit (&b);
}
