/* The dynamic section of a loaded object. */
#pragma once

#include "base.h"

#define DT_PLTRELSZ 2
#define DT_STRTAB 5
#define DT_SYMTAB 6
#define DT_RELA 7
#define DT_RELASZ 8
#define DT_STRSZ 10
#define DT_SONAME 14
#define DT_AUDIT 0x6ffffefc
#define DT_DEPAUDIT 0x6ffffefb

/* The properties of an object that its search depends on. */
struct run_path
{
  /* DT_RUNPATH, else DT_RPATH, else NULL. */
  const char *value;
  /* True if it is DT_RPATH, which the objects that it loads inherit. */
  int is_rpath;
  /* It has a DT_RUNPATH, possibly an empty one. */
  int has_runpath;
  /* DF_1_NODEFLIB. */
  int no_default;
};

struct run_path dynamic_run_path (const struct link_map *map);

/* Returns the last entry of a kind, as the loader does; NULL if the object has none. */
const elf_dyn *dynamic_entry (const struct link_map *map, elf_sword tag);

/* Returns the value of such an entry, 0 if the object has none. */
elf_word dynamic_value (const struct link_map *map, elf_sword tag);

/* Returns the table that such an entry leads to, NULL if the object has none. */
const void *dynamic_table (const struct link_map *map, elf_sword tag);

/* Returns the string of an entry, NULL if the object has none. */
const char *dynamic_string (const struct link_map *map, elf_sword tag);

/* Returns the address of an entry, whether or not the load address was already added to it. */
elf_word dynamic_address (const struct link_map *map, elf_word value);

/* Returns the hash of the run path by which the index knows the object. */
uint32_t run_path_digest (const struct run_path *run_path);

/* Returns the address of a symbol that an object defines, by its DT_GNU_HASH or DT_HASH; of several versions, the one
   that new programs are linked with. */
void *dynamic_symbol (const struct link_map *map, const char *name);
