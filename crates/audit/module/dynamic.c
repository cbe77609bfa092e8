/* Reads dynamic sections where the loader mapped them. */
#include "dynamic.h"
#include "hash.h"

#define DT_HASH 4
#define DT_STRTAB 5
#define DT_SYMTAB 6
#define DT_STRSZ 10
#define DT_RPATH 15
#define DT_RUNPATH 29
#define DT_GNU_HASH 0x6ffffef5
#define DT_VERSYM 0x6ffffff0
#define DT_FLAGS_1 0x6ffffffb
#define DF_1_NODEFLIB 0x800

/* The loader adds the load address to these entries in place, except if the section is read-only
   (from 2.35 on; the vDSO's; RISC-V's). Of the two possible addresses, the one nearer to the
   section itself is right: both are parts of one object. */
elf_word
dynamic_address (const struct link_map *map, elf_word value)
{
  elf_word here = (elf_word) map->dynamic, added = value + map->addr;
  elf_word as_is_away = value > here ? value - here : here - value;
  elf_word added_away = added > here ? added - here : here - added;
  return as_is_away <= added_away ? value : added;
}

/* Returns the table at an address, NULL if there is none. */
static const void *
table_at (const struct link_map *map, elf_word value)
{
  return value != 0 ? (const void *) dynamic_address (map, value) : NULL;
}

struct tables
dynamic_tables (const struct link_map *map)
{
  struct tables t = { 0 };
  for (const elf_dyn *entry = map->dynamic; entry->tag != 0; entry++)
    switch (entry->tag)
      {
      case DT_HASH: t.hash = table_at (map, entry->value); break;
      case DT_STRTAB: t.strings = table_at (map, entry->value); break;
      case DT_SYMTAB: t.symbols = table_at (map, entry->value); break;
      case DT_STRSZ: t.strings_size = entry->value; break;
      case DT_RPATH: t.rpath = entry->value; t.has_rpath = 1; break;
      case DT_RUNPATH: t.runpath = entry->value; t.has_runpath = 1; break;
      case DT_GNU_HASH: t.gnu_hash = table_at (map, entry->value); break;
      case DT_VERSYM: t.versions = table_at (map, entry->value); break;
      case DT_FLAGS_1: t.flags_1 = entry->value; break;
      }
  return t;
}

struct run_path
dynamic_run_path (const struct link_map *map)
{
  if (map->dynamic == NULL)
    return (struct run_path) { 0 };
  const struct tables t = dynamic_tables (map);
  const elf_word at = t.has_runpath ? t.runpath : t.rpath;
  struct run_path result = { .has_runpath = t.has_runpath, .no_default = (t.flags_1 & DF_1_NODEFLIB) != 0 };
  /* The loader does not check DT_STRSZ and may search a run path behind it. Return one that no object is known by. */
  const char *value = t.strings == NULL || at >= t.strings_size ? "?" : t.strings + at;
  /* An empty one counts as none, but for the DT_RPATH of others. */
  if ((t.has_runpath || t.has_rpath) && *value != '\0')
    {
      result.value = value;
      result.is_rpath = !t.has_runpath;
    }
  return result;
}

const char *
dynamic_string (const struct link_map *map, elf_sword tag)
{
  if (map->dynamic == NULL)
    return NULL;
  const struct tables t = dynamic_tables (map);
  for (const elf_dyn *entry = map->dynamic; entry->tag != 0; entry++)
    if (entry->tag == tag && t.strings != NULL && entry->value < t.strings_size)
      return t.strings + entry->value;
  return NULL;
}

uint32_t
run_path_digest (const struct run_path *run_path)
{
  uint64_t seed = 1u | (run_path->is_rpath ? 2u : 0) | (run_path->no_default ? 4u : 0);
  return (uint32_t) hash_bytes (seed, run_path->value, strlen (run_path->value));
}

/* A division would be a call into libgcc on some machines. */
static uint32_t
modulo (uint32_t value, uint32_t by)
{
  uint64_t rest = 0;
  for (int bit = 31; bit >= 0; bit--)
    {
      rest = rest << 1 | (value >> bit & 1);
      if (rest >= by)
        rest -= by;
    }
  return (uint32_t) rest;
}

/* Returns the first symbol of that name that is not hidden, else the first one. */
static const elf_sym *
by_gnu_hash (const struct tables *t, const char *name)
{
  const unsigned hidden = 0x8000;
  const elf_sym *found = NULL;
  const uint32_t *table = t->gnu_hash;
  uint32_t bucket_count = table[0], first = table[1], bloom_words = table[2], hash = 5381;
  for (const char *c = name; *c != '\0'; c++)
    hash = hash * 33 + (unsigned char) *c;
  const uint32_t *buckets = table + 4 + bloom_words * (sizeof (elf_word) / 4);
  uint32_t index = bucket_count != 0 ? buckets[modulo (hash, bucket_count)] : 0;
  if (index < first)
    return NULL;
  for (const uint32_t *chain = buckets + bucket_count + (index - first);; chain++, index++)
    {
      if ((*chain | 1) == (hash | 1) && text_equal (t->strings + t->symbols[index].name, name))
        {
          found = found == NULL ? &t->symbols[index] : found;
          if (t->versions == NULL || !(t->versions[index] & hidden))
            return &t->symbols[index];
        }
      if (*chain & 1)
        return found;
    }
}

static const elf_sym *
by_hash (const struct tables *t, const char *name)
{
  for (uint32_t index = 1; index < t->hash[1]; index++)
    if (text_equal (t->strings + t->symbols[index].name, name))
      return &t->symbols[index];
  return NULL;
}

void *
dynamic_symbol (const struct link_map *map, const char *name)
{
  if (map->dynamic == NULL)
    return NULL;
  const struct tables t = dynamic_tables (map);
  const elf_sym *symbol = NULL;
  if (t.strings == NULL || t.symbols == NULL)
    return NULL;
  if (t.gnu_hash != NULL)
    symbol = by_gnu_hash (&t, name);
  else if (t.hash != NULL && ELF_MACHINE != 22u) /* z/Architecture: words of 64 bits */
    symbol = by_hash (&t, name);
  return symbol != NULL && symbol->section != 0 ? (void *) (map->addr + symbol->value) : NULL;
}
