/* Reads the table's records of bindings. The checksum of a block covers all of it, so that no
   word of a damaged table is written into an object. */
#include "bound.h"
#include "hash.h"

_Static_assert (sizeof (struct table_bound_program) == 40, "as becalm writes it");
_Static_assert (sizeof (struct table_bound_object) == 64, "as becalm writes it");
_Static_assert (sizeof (struct table_member) == 16, "as becalm writes it");
_Static_assert (sizeof (struct table_block) == 16, "as becalm writes it");
_Static_assert (sizeof (struct residual) == 16, "as becalm writes it");

/* Returns the first record of a program from an index on. Records of one program follow each other. */
static const struct table_bound_program *
first_from (uint32_t index, const char *path, uint32_t wanted)
{
  uint32_t count, member_count, length;
  const char *known;
  const struct table_bound_program *all = table_section (SECTION_BOUND_PROGRAMS, &count);
  const struct table_member *members = table_section (SECTION_MEMBERS, &member_count);
  for (; members != NULL && index < count && all[index].path_hash == wanted; index++)
    {
      const struct table_bound_program *program
          = table_record (SECTION_BOUND_PROGRAMS, index, &known, &length);
      if (program != NULL && text_equal (known, path)
          && (uint64_t) program->members + program->member_count <= member_count
          && program->members_check
                 == hash_low (0, members + program->members, program->member_count * sizeof *members))
        return program;
    }
  return NULL;
}

const struct table_bound_program *
bound_program (const char *path)
{
  uint32_t count;
  const struct table_bound_program *all = table_section (SECTION_BOUND_PROGRAMS, &count);
  uint32_t wanted = hash_low (0, path, strlen (path));
  return first_from (table_first_of (all, count, sizeof *all, 4, wanted), path, wanted);
}

const struct table_bound_program *
bound_program_after (const struct table_bound_program *program)
{
  uint32_t count, length;
  const struct table_bound_program *all = table_section (SECTION_BOUND_PROGRAMS, &count);
  const char *path = table_string (program->path, &length);
  return first_from ((uint32_t) (program - all) + 1, path, program->path_hash);
}

const struct table_member *
bound_members (const struct table_bound_program *program)
{
  uint32_t count;
  const struct table_member *members = table_section (SECTION_MEMBERS, &count);
  return members + program->members;
}

const struct table_bound_object *
bound_object (uint32_t index, const char **path)
{
  uint32_t length;
  return table_record (SECTION_BOUND_OBJECTS, index, path, &length);
}

uint32_t
bound_object_count (void)
{
  uint32_t count;
  table_section (SECTION_BOUND_OBJECTS, &count);
  return count;
}

static const uint32_t *
block_words (uint32_t index, uint64_t *count)
{
  uint32_t block_count, word_count;
  const struct table_block *blocks = table_section (SECTION_BLOCKS, &block_count);
  const uint32_t *words = table_section (SECTION_BLOCK_WORDS, &word_count);
  if (blocks == NULL || words == NULL || index >= block_count)
    return NULL;
  const struct table_block *block = &blocks[index];
  if ((uint64_t) block->at + block->count > word_count)
    return NULL;
  words += block->at;
  *count = block->count;
  return words;
}

int
bound_block_is_whole (uint32_t index)
{
  uint64_t count;
  const uint32_t *words = block_words (index, &count);
  const struct table_block *blocks = table_section (SECTION_BLOCKS, &(uint32_t) { 0 });
  return words != NULL && hash_block (index, words, 4 * (size_t) count) == blocks[index].hash;
}

int
bound_relatives (uint32_t block, struct relatives *result)
{
  uint64_t count;
  const uint32_t *words = block_words (block, &count);
  if (words == NULL || count < 1 || 1 + (uint64_t) words[0] > count)
    return 0;
  result->values = words + 1;
  result->words = (struct words) { words[0], words + 1 + words[0], words + count };
  return 1;
}

/* True if the definers have all targets, and the objects of the definers exist. */
static int
definers_fit (const struct bindings *b)
{
  uint64_t targets = 0;
  uint32_t objects = bound_object_count ();
  for (uint32_t i = 0; i < b->definer_count; i++)
    {
      if (b->definers[i].object != ABSOLUTE && b->definers[i].object >= objects)
        return 0;
      targets += b->definers[i].target_count;
    }
  return targets == b->target_count;
}

static int
indirects_fit (const struct bindings *b)
{
  for (uint32_t i = 0; i < b->indirect_count; i++)
    if (b->indirects[i].target >= b->target_count)
      return 0;
  return 1;
}

int
bound_bindings (uint32_t block, struct bindings *result)
{
  const uint32_t header = 7;
  uint64_t count;
  const uint32_t *words = block_words (block, &count);
  if (words == NULL || count < header)
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
  if (at > count)
    return 0;
  b.slots = (struct words) { slot_count, words + at, words + count };
  *result = b;
  return definers_fit (&b) && indirects_fit (&b);
}
