/* Reads the table. Its contents are used only if the checksum is right: one for the header, and
   one for each record, so that a lookup touches no more pages than it needs. */
#include "table.h"
#include "hash.h"
#include "whole.h"

static enum { UNREAD, USABLE, UNUSABLE } state STATE = UNREAD;
const struct table_header *table_header STATE = NULL;
struct sections sections[SECTION_KINDS] STATE = { { NULL, 0 } };
/* A bit for each search directory whose names were verified. */
static unsigned char checked_names[1024] STATE = { 0 };

/* The size of a record of each kind that the module reads. */
static const unsigned char record_sizes[SECTION_KINDS] = {
  [SECTION_OBJECTS] = sizeof (struct table_object),
  [SECTION_BUCKETS] = 4,
  [SECTION_EDGES] = sizeof (struct table_edge),
  [SECTION_CONDITIONS] = sizeof (struct table_condition),
  [SECTION_POOL] = 4,
  [SECTION_DIRECTORIES] = sizeof (struct table_directory),
  [SECTION_STRINGS] = 1,
  [SECTION_SEARCH_DIRS] = sizeof (struct table_search_dir),
  [SECTION_BOUND_PROGRAMS] = sizeof (struct table_bound_program),
  [SECTION_BOUND_OBJECTS] = sizeof (struct table_bound_object),
  [SECTION_MEMBERS] = sizeof (struct table_member),
  [SECTION_BLOCKS] = sizeof (struct table_block),
  [SECTION_BLOCK_WORDS] = 4,
  [SECTION_PATH_ROOTS] = sizeof (struct table_path_root),
  [SECTION_PATH_PACKAGES] = sizeof (struct table_path_package),
  [SECTION_PATH_LINKS] = sizeof (struct table_path_link),
  [SECTION_PATH_SLOTS] = 4,
};

/* Keeps the sections that the module reads; returns false if a section does not fit into the
   table. */
static int
read_sections (const struct table_section *section, uint32_t count)
{
  for (; count > 0; count--, section++)
    {
      uint32_t size = section->kind < SECTION_KINDS ? record_sizes[section->kind] : 0;
      if (size == 0)
        continue;
      if (section->size != size || section->at % 8 != 0
          || (uint64_t) section->at + (uint64_t) section->count * size > table_header->length)
        return 0;
      sections[section->kind].records = (const char *) table_header + section->at;
      sections[section->kind].count = section->count;
    }
  for (unsigned kind = 1; kind < SECTION_BOUND_PROGRAMS; kind++)
    if (record_sizes[kind] != 0 && sections[kind].records == NULL)
      return 0;
  return sections[SECTION_BUCKETS].count > 0;
}

int
table_ready (void)
{
  if (state != UNREAD)
    return state == USABLE;
  state = UNUSABLE;
  uint64_t mapped;
  table_header = (const struct table_header *) table_place (&mapped);
  if (mapped < sizeof (struct table_header) + TRAILER_SIZE)
    return 0;
  /* Before the table is read: the path of the first root is at its very end. */
  if (!file_end_is_there ((const char *) table_header + mapped - TRAILER_SIZE, TRAILER_SIZE))
    return 0;
  const struct table_header *h = table_header;
  const struct table_section *directory = (const struct table_section *) (h + 1);
  const uint32_t machine = ELF_MACHINE | ELF_CLASS << 16 | DATA_ENCODING << 24;
  if (memcmp (h->magic, "becalmIX", 8) != 0 || h->order != TABLE_ORDER
      || h->version != TABLE_VERSION || h->machine != machine || h->length != mapped
      || h->section_count > MAX_SECTIONS
      || sizeof *h + h->section_count * sizeof *directory + TRAILER_SIZE > mapped)
    return 0;
  uint64_t seed = hash_bytes (0, directory, h->section_count * sizeof *directory);
  if (h->check == (uint32_t) hash_bytes (seed, h, offsetof (struct table_header, check))
      && read_sections (directory, h->section_count))
    state = USABLE;
  return state == USABLE;
}

const char *
table_string (uint32_t at)
{
  uint32_t end = sections[SECTION_STRINGS].count;
  uint16_t n;
  if ((uint64_t) at + sizeof n > end)
    return NULL;
  const char *string = (const char *) sections[SECTION_STRINGS].records + at;
  __builtin_memcpy (&n, string, sizeof n);
  if ((uint64_t) at + sizeof n + n + 1 > end || string[sizeof n + n] != '\0')
    return NULL;
  return string + sizeof n;
}

const void *
table_record (enum section_kind kind, uint32_t index, const char **path)
{
  /* These begin with the number that they are sorted by. The check is last. */
  const size_t path_at = kind == SECTION_DIRECTORIES || kind == SECTION_BOUND_PROGRAMS ? 4 : 0;
  const size_t size = record_sizes[kind], checked = size - 4;
  if (index >= sections[kind].count)
    return NULL;
  const unsigned char *record = (const unsigned char *) sections[kind].records + index * size;
  *path = table_string (*(const uint32_t *) (record + path_at));
  if (*path == NULL)
    return NULL;
  uint64_t seed = hash_bytes (0, *path, strlen (*path));
  return *(const uint32_t *) (record + checked) == (uint32_t) hash_bytes (seed, record, checked) ? record : NULL;
}

const struct table_object *
table_find_object (const char *path)
{
  const uint32_t *buckets = sections[SECTION_BUCKETS].records;
  const char *known;
  const size_t length = strlen (path);
  uint64_t bucket = (hash_bytes (0, path, length) >> 32) * sections[SECTION_BUCKETS].count >> 32;
  uint32_t from = bucket == 0 ? 0 : buckets[bucket - 1], to = buckets[bucket];
  if (to > sections[SECTION_OBJECTS].count)
    return NULL;
  for (; from < to; from++)
    {
      const struct table_object *object = table_record (SECTION_OBJECTS, from, &known);
      if (object != NULL && name_is (path, length, known)
          && (uint64_t) object->edges + object->edge_count <= sections[SECTION_EDGES].count)
        return object;
    }
  return NULL;
}

const struct table_edge *
table_find_edge (const struct table_object *object, const char *needed, const char **path)
{
  if (object == NULL)
    return NULL;
  const struct table_edge *edges
      = (const struct table_edge *) sections[SECTION_EDGES].records + object->edges;
  size_t needed_length = strlen (needed);
  uint32_t wanted = (uint32_t) hash_bytes (0, needed, needed_length);
  uint32_t low = table_first_of (edges, object->edge_count, sizeof *edges, 4, wanted);
  for (; low < object->edge_count && edges[low].name_hash == wanted; low++)
    {
      const char *string = table_string (edges[low].path);
      const size_t length = string != NULL ? strlen (string) : 0;
      if (length <= needed_length || string[length - needed_length - 1] != '/'
          || memcmp (string + length - needed_length, needed, needed_length) != 0)
        continue;
      uint64_t seed = hash_bytes (object->run_path, string, length);
      if (edges[low].check != (uint32_t) hash_bytes (seed, &edges[low], offsetof (struct table_edge, check)))
        return NULL;
      *path = string;
      return &edges[low];
    }
  return NULL;
}

const uint32_t *
table_set (uint32_t at, uint32_t *count)
{
  const uint32_t *pool = sections[SECTION_POOL].records;
  uint32_t end = sections[SECTION_POOL].count;
  if (at >= end || (uint64_t) at + pool[at] + 2 > end)
    return NULL;
  *count = pool[at];
  if (pool[at + 1 + *count] != (uint32_t) hash_bytes (at, pool + at, 4 * ((size_t) *count + 1)))
    return NULL;
  return pool + at + 1;
}

static int
names_hold (const struct table_names *names)
{
  const uint32_t *pool = sections[SECTION_POOL].records;
  return (uint64_t) names->at + 2 * (uint64_t) names->count <= sections[SECTION_POOL].count
         && names->check == (uint32_t) hash_bytes (0, pool + names->at, 8 * (size_t) names->count);
}

const struct table_directory *
table_find_directory (const char *path, size_t length)
{
  const struct table_directory *all = sections[SECTION_DIRECTORIES].records;
  uint32_t count = sections[SECTION_DIRECTORIES].count, wanted = (uint32_t) hash_bytes (0, path, length);
  const char *known;
  uint32_t low = table_first_of (all, count, sizeof *all, 4, wanted);
  for (; low < count && all[low].path_hash == wanted; low++)
    if (table_record (SECTION_DIRECTORIES, low, &known) != NULL && name_is (path, length, known)
        && all[low].flags & DIRECTORY_HAS_NAMES && names_hold (&all[low].names))
      return &all[low];
  return NULL;
}

int
table_has_name (const struct table_names *names, const char *name)
{
  const uint32_t *words = (const uint32_t *) sections[SECTION_POOL].records + names->at;
  uint64_t wanted = hash_bytes (0, name, strlen (name)) & ~(uint64_t) 1;
  uint32_t low = 0, high = names->count;
  while (low < high)
    {
      uint32_t middle = low + (high - low) / 2;
      uint64_t here = (uint64_t) words[2 * middle] << 32 | words[2 * middle + 1];
      if ((here & ~(uint64_t) 1) == wanted)
        return here & 1 ? 2 : 1;
      if (here < wanted)
        low = middle + 1;
      else
        high = middle;
    }
  return 0;
}

const struct table_search_dir *
table_search_dir (uint32_t index, const char **path)
{
  const struct table_search_dir *dir = table_record (SECTION_SEARCH_DIRS, index, path);
  if (dir == NULL)
    return NULL;
  /* There are many names, and they are searched often: they are verified once. */
  unsigned char bit = (unsigned char) (1u << index % 8);
  if (index / 8 < sizeof checked_names && checked_names[index / 8] & bit)
    return dir;
  if (!names_hold (&dir->names))
    return NULL;
  if (index / 8 < sizeof checked_names)
    checked_names[index / 8] |= bit;
  return dir;
}
