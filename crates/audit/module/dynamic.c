/* Reads dynamic sections where the loader mapped them. */
#include "dynamic.h"
#include "hash.h"

#define DT_HASH 4
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

const elf_dyn *
dynamic_entry (const struct link_map *map, elf_sword tag)
{
  const elf_dyn *found = NULL;
  for (const elf_dyn *entry = map->dynamic; entry != NULL && entry->tag != 0; entry++)
    if (entry->tag == tag)
      found = entry;
  return found;
}

elf_word
dynamic_value (const struct link_map *map, elf_sword tag)
{
  const elf_dyn *entry = dynamic_entry (map, tag);
  return entry != NULL ? entry->value : 0;
}

const void *
dynamic_table (const struct link_map *map, elf_sword tag)
{
  const elf_word value = dynamic_value (map, tag);
  return value != 0 ? (const void *) dynamic_address (map, value) : NULL;
}

const char *
dynamic_string (const struct link_map *map, elf_sword tag)
{
  const elf_dyn *entry = dynamic_entry (map, tag);
  const char *strings = entry != NULL ? dynamic_table (map, DT_STRTAB) : NULL;
  return strings != NULL && entry->value < dynamic_value (map, DT_STRSZ) ? strings + entry->value : NULL;
}

struct run_path
dynamic_run_path (const struct link_map *map)
{
  const elf_dyn *runpath = dynamic_entry (map, DT_RUNPATH), *rpath = dynamic_entry (map, DT_RPATH);
  struct run_path result = { .has_runpath = runpath != NULL,
                             .no_default = (dynamic_value (map, DT_FLAGS_1) & DF_1_NODEFLIB) != 0 };
  if (runpath == NULL && rpath == NULL)
    return result;
  /* The loader does not check DT_STRSZ and may search a run path behind it. Return one that no object is known by. */
  const char *value = dynamic_string (map, runpath != NULL ? DT_RUNPATH : DT_RPATH);
  value = value != NULL ? value : "?";
  /* An empty one counts as none, but for the DT_RPATH of others. */
  if (*value != '\0')
    {
      result.value = value;
      result.is_rpath = runpath == NULL;
    }
  return result;
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

/* The symbols of an object. */
struct symbols
{
  const elf_sym *first;
  const char *strings;
};

/* Returns the first symbol of that name that is not hidden, else the first one. */
static const elf_sym *
by_gnu_hash (const struct symbols *symbols, const uint32_t *table, const uint16_t *versions, const char *name)
{
  const unsigned hidden = 0x8000;
  const elf_sym *found = NULL;
  uint32_t bucket_count = table[0], first = table[1], bloom_words = table[2], hash = 5381;
  for (const char *c = name; *c != '\0'; c++)
    hash = hash * 33 + (unsigned char) *c;
  const uint32_t *buckets = table + 4 + bloom_words * (sizeof (elf_word) / 4);
  uint32_t index = bucket_count != 0 ? buckets[modulo (hash, bucket_count)] : 0;
  if (index < first)
    return NULL;
  for (const uint32_t *chain = buckets + bucket_count + (index - first);; chain++, index++)
    {
      const elf_sym *symbol = &symbols->first[index];
      if ((*chain | 1) == (hash | 1) && text_equal (symbols->strings + symbol->name, name))
        {
          found = found == NULL ? symbol : found;
          if (versions == NULL || !(versions[index] & hidden))
            return symbol;
        }
      if (*chain & 1)
        return found;
    }
}

static const elf_sym *
by_hash (const struct symbols *symbols, const uint32_t *table, const char *name)
{
  for (uint32_t index = 1; index < table[1]; index++)
    if (text_equal (symbols->strings + symbols->first[index].name, name))
      return &symbols->first[index];
  return NULL;
}

void *
dynamic_symbol (const struct link_map *map, const char *name)
{
  const struct symbols symbols = { dynamic_table (map, DT_SYMTAB), dynamic_table (map, DT_STRTAB) };
  const uint32_t *gnu_hash = dynamic_table (map, DT_GNU_HASH), *hash = dynamic_table (map, DT_HASH);
  const elf_sym *symbol = NULL;
  if (symbols.first == NULL || symbols.strings == NULL)
    return NULL;
  if (gnu_hash != NULL)
    symbol = by_gnu_hash (&symbols, gnu_hash, dynamic_table (map, DT_VERSYM), name);
  else if (hash != NULL && ELF_MACHINE != 22u) /* z/Architecture: words of 64 bits */
    symbol = by_hash (&symbols, hash, name);
  return symbol != NULL && symbol->section != 0 ? (void *) (map->addr + symbol->value) : NULL;
}
