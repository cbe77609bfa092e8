/* Reads the table. Its contents are used only if the checksum is right: one for the header, and
   one for each record, so that a lookup touches no more pages than it needs. */
#include "table.h"
#include "file_end.h"
#include "hash.h"

static enum { UNREAD, USABLE, UNUSABLE } state STATE = UNREAD;
static const unsigned char *table STATE = NULL;
/* For each kind: the section's first record and the number of records. */
static struct
{
  const void *records;
  uint32_t count;
} sections[SECTION_KINDS] STATE = { { NULL, 0 } };
/* A bit for each search directory whose names were verified. */
static unsigned char checked_names[1024] STATE = { 0 };

static const struct table_header *
header (void)
{
  return (const struct table_header *) table;
}

uint64_t
table_checksum (void)
{
  return header ()->checksum;
}

/* Returns the size of a record of a kind, 0 for a kind that the module does not read. */
static uint32_t
record_size (uint32_t kind)
{
  switch (kind)
    {
    case SECTION_OBJECTS:
      return sizeof (struct table_object);
    case SECTION_EDGES:
      return sizeof (struct table_edge);
    case SECTION_CONDITIONS:
      return sizeof (struct table_condition);
    case SECTION_DIRECTORIES:
      return sizeof (struct table_directory);
    case SECTION_SEARCH_DIRS:
      return sizeof (struct table_search_dir);
    case SECTION_BOUND_PROGRAMS:
      return sizeof (struct table_bound_program);
    case SECTION_BOUND_OBJECTS:
      return sizeof (struct table_bound_object);
    case SECTION_MEMBERS:
      return sizeof (struct table_member);
    case SECTION_BLOCKS:
      return sizeof (struct table_block);
    case SECTION_PATH_ROOTS:
      return sizeof (struct table_path_root);
    case SECTION_PATH_PACKAGES:
      return sizeof (struct table_path_package);
    case SECTION_PATH_LINKS:
      return sizeof (struct table_path_link);
    case SECTION_BUCKETS:
    case SECTION_POOL:
    case SECTION_BLOCK_WORDS:
    case SECTION_PATH_SLOTS:
      return 4;
    case SECTION_STRINGS:
      return 1;
    default:
      return 0;
    }
}

/* Keeps the sections that the module reads; returns false if a section does not fit into the
   table. */
static int
read_sections (const struct table_section *section, uint32_t count)
{
  for (; count > 0; count--, section++)
    {
      uint32_t size = record_size (section->kind);
      if (size == 0)
        continue;
      if (section->size != size || section->at % 8 != 0
          || (uint64_t) section->at + (uint64_t) section->count * size > header ()->length)
        return 0;
      sections[section->kind].records = table + section->at;
      sections[section->kind].count = section->count;
    }
  for (unsigned kind = 1; kind < SECTION_BOUND_PROGRAMS; kind++)
    if (record_size (kind) != 0 && sections[kind].records == NULL)
      return 0;
  return sections[SECTION_BUCKETS].count > 0;
}

static int
header_holds (uint64_t mapped)
{
  const struct table_header *h = header ();
  const struct table_section *directory = (const struct table_section *) (h + 1);
  uint32_t machine = ELF_MACHINE | ELF_CLASS << 16 | DATA_ENCODING << 24;
  if (memcmp (h->magic, "becalmIX", 8) != 0 || h->order != TABLE_ORDER
      || h->version != TABLE_VERSION || h->machine != machine || h->length != mapped
      || h->section_count > MAX_SECTIONS
      || sizeof *h + h->section_count * sizeof *directory + TRAILER_SIZE > mapped)
    return 0;
  uint64_t seed = hash_bytes (0, directory, h->section_count * sizeof *directory);
  return h->check == hash_low (seed, h, offsetof (struct table_header, check))
         && read_sections (directory, h->section_count);
}

int
table_ready (void)
{
  if (state != UNREAD)
    return state == USABLE;
  state = UNUSABLE;
  uint64_t mapped;
  table = table_place (&mapped);
  if (mapped < sizeof (struct table_header) + TRAILER_SIZE)
    return 0;
  /* Before the table is read: the path of the first root is at its very end. */
  if (!file_end_is_there ((const char *) table + mapped - TRAILER_SIZE, TRAILER_SIZE))
    return 0;
  if (!header_holds (mapped))
    return 0;
  state = USABLE;
  return 1;
}

const void *
table_section (enum section_kind kind, uint32_t *count)
{
  *count = sections[kind].count;
  return sections[kind].records;
}

const char *
table_string (uint32_t at, uint32_t *length)
{
  uint32_t end = sections[SECTION_STRINGS].count;
  uint16_t n;
  if ((uint64_t) at + sizeof n > end)
    return NULL;
  const char *string = (const char *) sections[SECTION_STRINGS].records + at;
  __builtin_memcpy (&n, string, sizeof n);
  if ((uint64_t) at + sizeof n + n + 1 > end || string[sizeof n + n] != '\0')
    return NULL;
  *length = n;
  return string + sizeof n;
}

const struct table_object *
table_object (uint32_t index)
{
  return (const struct table_object *) sections[SECTION_OBJECTS].records + index;
}

static int
object_is (const struct table_object *object, const char *path, size_t length, uint64_t hash)
{
  uint32_t known;
  const char *string = table_string (object->path, &known);
  if (string == NULL || known != length || memcmp (string, path, length) != 0)
    return 0;
  return object->check == hash_low (hash, object, offsetof (struct table_object, check))
         && (uint64_t) object->edges + object->edge_count <= sections[SECTION_EDGES].count;
}

uint32_t
table_find_object (const char *path)
{
  const uint32_t *buckets = sections[SECTION_BUCKETS].records;
  size_t length = strlen (path);
  uint64_t hash = hash_bytes (0, path, length);
  uint64_t bucket = (hash >> 32) * sections[SECTION_BUCKETS].count >> 32;
  uint32_t from = bucket == 0 ? 0 : buckets[bucket - 1], to = buckets[bucket];
  if (to > sections[SECTION_OBJECTS].count)
    return NO_OBJECT;
  for (; from < to; from++)
    if (object_is (table_object (from), path, length, hash))
      return from;
  return NO_OBJECT;
}

static int
ends_in_name (const char *path, uint32_t length, const char *needed, size_t needed_length)
{
  return length > needed_length && path[length - needed_length - 1] == '/'
         && memcmp (path + length - needed_length, needed, needed_length) == 0;
}

const struct table_edge *
table_find_edge (const struct table_object *object, const char *needed, const char **path)
{
  const struct table_edge *edges
      = (const struct table_edge *) sections[SECTION_EDGES].records + object->edges;
  size_t needed_length = strlen (needed);
  uint32_t wanted = hash_low (0, needed, needed_length);
  uint32_t low = table_first_of (edges, object->edge_count, sizeof *edges, 4, wanted);
  for (; low < object->edge_count && edges[low].name_hash == wanted; low++)
    {
      uint32_t length;
      const char *string = table_string (edges[low].path, &length);
      if (string == NULL || !ends_in_name (string, length, needed, needed_length))
        continue;
      uint64_t seed = hash_bytes (object->run_path, string, length);
      if (edges[low].check != hash_low (seed, &edges[low], offsetof (struct table_edge, check)))
        return NULL;
      *path = string;
      return &edges[low];
    }
  return NULL;
}

const struct table_condition *
table_condition (uint32_t index, const char **path)
{
  if (index >= sections[SECTION_CONDITIONS].count)
    return NULL;
  const struct table_condition *condition
      = (const struct table_condition *) sections[SECTION_CONDITIONS].records + index;
  uint32_t length;
  *path = table_string (condition->path, &length);
  if (*path == NULL)
    return NULL;
  uint64_t seed = hash_bytes (0, *path, length);
  if (condition->check != hash_low (seed, condition, offsetof (struct table_condition, check)))
    return NULL;
  return condition;
}

const uint32_t *
table_set (uint32_t at, uint32_t *count)
{
  const uint32_t *pool = sections[SECTION_POOL].records;
  uint32_t end = sections[SECTION_POOL].count;
  if (at >= end || (uint64_t) at + pool[at] + 2 > end)
    return NULL;
  *count = pool[at];
  if (pool[at + 1 + *count] != hash_low (at, pool + at, 4 * ((size_t) *count + 1)))
    return NULL;
  return pool + at + 1;
}

uint32_t
table_roots (void)
{
  return header ()->roots;
}

uint32_t
table_filters (void)
{
  return table_ready () ? header ()->filters : 0;
}

int
table_is_told (void)
{
  return table_ready () && header ()->flags & TABLE_TOLD;
}

static int
directory_holds (const struct table_directory *directory, const char *path, size_t length)
{
  uint32_t known;
  const char *string = table_string (directory->path, &known);
  if (string == NULL || known != length || memcmp (string, path, length) != 0
      || !(directory->flags & DIRECTORY_HAS_NAMES))
    return 0;
  uint64_t seed = hash_bytes (0, path, length);
  if (directory->check
      != hash_low (seed, directory, offsetof (struct table_directory, check)))
    return 0;
  if ((uint64_t) directory->names + 2 * (uint64_t) directory->name_count
      > sections[SECTION_POOL].count)
    return 0;
  const uint32_t *pool = sections[SECTION_POOL].records;
  return directory->names_check
         == hash_low (0, pool + directory->names, 8 * (size_t) directory->name_count);
}

const struct table_directory *
table_find_directory (const char *path, size_t length)
{
  const struct table_directory *all = sections[SECTION_DIRECTORIES].records;
  uint32_t count = sections[SECTION_DIRECTORIES].count, wanted = hash_low (0, path, length);
  uint32_t low = table_first_of (all, count, sizeof *all, 4, wanted);
  for (; low < count && all[low].path_hash == wanted; low++)
    if (directory_holds (&all[low], path, length))
      return &all[low];
  return NULL;
}

/* NAMES has COUNT names of two words each, in order. */
static int
names_have (uint32_t at, uint32_t count, const char *name)
{
  const uint32_t *names = (const uint32_t *) sections[SECTION_POOL].records + at;
  uint64_t wanted = hash_bytes (0, name, strlen (name)) & ~(uint64_t) 1;
  uint32_t low = 0, high = count;
  while (low < high)
    {
      uint32_t middle = low + (high - low) / 2;
      uint64_t here = (uint64_t) names[2 * middle] << 32 | names[2 * middle + 1];
      if ((here & ~(uint64_t) 1) == wanted)
        return here & 1 ? 2 : 1;
      if (here < wanted)
        low = middle + 1;
      else
        high = middle;
    }
  return 0;
}

int
table_directory_has (const struct table_directory *directory, const char *name)
{
  return names_have (directory->names, directory->name_count, name);
}

const uint32_t *
table_rpath (const struct table_object *object, uint32_t *count)
{
  return object->rpath != 0 ? table_set (object->rpath - 1, count) : NULL;
}

static int
names_hold (const struct table_search_dir *dir)
{
  if ((uint64_t) dir->names + 2 * (uint64_t) dir->name_count > sections[SECTION_POOL].count)
    return 0;
  const uint32_t *pool = sections[SECTION_POOL].records;
  return dir->names_check == hash_low (0, pool + dir->names, 8 * (size_t) dir->name_count);
}

const struct table_search_dir *
table_search_dir (uint32_t index, const char **path, uint32_t *length)
{
  if (index >= sections[SECTION_SEARCH_DIRS].count)
    return NULL;
  const struct table_search_dir *dir
      = (const struct table_search_dir *) sections[SECTION_SEARCH_DIRS].records + index;
  *path = table_string (dir->path, length);
  if (*path == NULL)
    return NULL;
  uint64_t seed = hash_bytes (0, *path, *length);
  if (dir->check != hash_low (seed, dir, offsetof (struct table_search_dir, check)))
    return NULL;
  /* There are many names, and they are searched often: they are verified once. */
  unsigned char bit = (unsigned char) (1u << index % 8);
  if (index / 8 < sizeof checked_names && checked_names[index / 8] & bit)
    return dir;
  if (!names_hold (dir))
    return NULL;
  if (index / 8 < sizeof checked_names)
    checked_names[index / 8] |= bit;
  return dir;
}

int
table_search_dir_has (const struct table_search_dir *dir, const char *name)
{
  return names_have (dir->names, dir->name_count, name);
}
