/* Checks whether another audit module has hooks for bindings or calls, or for lookups.

   The loader announces the objects of the modules that it loads after this one (la_objopen of
   other namespaces). A module that it loaded before is found in the kernel's list of mappings:
   when the program is announced, the list has the program, the loader, the audit modules and the
   libraries that these need. */
#include "auditors.h"
#include "dynamic.h"
#include "process.h"
#include "system.h"

#if __SIZEOF_POINTER__ == 8
# define SYMBIND "la_symbind64"
#else
# define SYMBIND "la_symbind32"
#endif
#if defined __x86_64__
# define PLTENTER "la_x86_64_gnu_pltenter"
# define PLTEXIT "la_x86_64_gnu_pltexit"
#elif defined __aarch64__
# define PLTENTER "la_aarch64_gnu_pltenter"
# define PLTEXIT "la_aarch64_gnu_pltexit"
#else
/* Nothing is bound here. */
# define PLTENTER SYMBIND
# define PLTEXIT SYMBIND
#endif

/* A longer list of mappings is not read. */
#define MAPS_SIZE (1u << 18)

/* Names a module of becalm, which acts on no file that the loader tries. */
EXPORT const char becalm_module = 1;

static unsigned seen STATE = 0;
unsigned auditors_found STATE = 0;

/* A line of /proc/self/maps. */
struct mapping
{
  elf_word from, to, offset;
  /* A private mapping of a file, which can be read. */
  int is_of_file;
};

static unsigned
functions_of (const struct link_map *map)
{
  unsigned result = 0;
  if (dynamic_symbol (map, SYMBIND) != NULL || dynamic_symbol (map, PLTENTER) != NULL
      || dynamic_symbol (map, PLTEXIT) != NULL)
    result |= AUDITORS_HOOK;
  if (dynamic_symbol (map, "la_objsearch") != NULL && dynamic_symbol (map, "becalm_module") == NULL)
    result |= AUDITORS_SEARCH;
  return result;
}

void
auditors_open (const struct link_map *map)
{
  /* The libraries that an audit module needs follow it in its namespace. */
  if (map->prev != NULL)
    return;
  seen++;
  auditors_found |= functions_of (map);
}

static elf_word
read_hexadecimal (const char **at)
{
  elf_word value = 0;
  for (unsigned next; (next = digit (**at)) < 16; ++*at)
    value = value << 4 | next;
  return value;
}

/* Reads "from-to rwxp offset device inode path"; returns the next line, NULL at the end. */
static const char *
next_mapping (const char *line, struct mapping *mapping)
{
  if (*line == '\0')
    return NULL;
  mapping->from = read_hexadecimal (&line);
  line++;
  mapping->to = read_hexadecimal (&line);
  const char *rights = ++line;
  line += sizeof "rwxp";
  mapping->offset = read_hexadecimal (&line);
  while (*line != '\0' && *line != '\n' && *line != '/' && *line != '[')
    line++;
  /* Memory without a file, such as the vDSO's data, has a name in brackets or none, and may not be readable
     at all. */
  mapping->is_of_file = rights[0] == 'r' && rights[3] == 'p' && *line == '/';
  line += length_to (line, '\n');
  return line + (*line == '\n');
}

/* True if the byte at an offset of a file is mapped at that address. */
static int
is_mapped (const char *maps, elf_word address, elf_word offset)
{
  struct mapping mapping;
  while ((maps = next_mapping (maps, &mapping)) != NULL)
    if (mapping.is_of_file && address >= mapping.from && address < mapping.to)
      return mapping.offset + (address - mapping.from) == offset;
  return 0;
}

/* The functions of the object whose ELF header is at the beginning of a mapping. A file mapped as
   data is not an object: its dynamic section is not where its headers say. */
static unsigned
functions_at (const char *maps, const struct mapping *mapping)
{
  const struct headers headers = headers_at (mapping->from, 1);
  const elf_phdr *first = header_of (headers, PT_LOAD), *dynamic = header_of (headers, PT_DYNAMIC);
  if (first == NULL || dynamic == NULL || first->offset != 0)
    return 0;
  struct link_map map = { mapping->from - first->vaddr, NULL, NULL, NULL, NULL };
  map.dynamic = (const elf_dyn *) (map.addr + dynamic->vaddr);
  return is_mapped (maps, (elf_word) map.dynamic, dynamic->offset) ? functions_of (&map) : 0;
}

void
auditors_init (const struct link_map *map)
{
  if (process_auditors (map) == seen + 1)
    return;
  /* Memory of zeros, so that the text ends. */
  char *maps = sys_allocate (MAPS_SIZE);
  long length = maps != NULL ? sys_read_file ("/proc/self/maps", maps, MAPS_SIZE) : 0;
  if (length <= 0 || length == MAPS_SIZE)
    auditors_found = AUDITORS_HOOK | AUDITORS_SEARCH;
  else
    {
      struct mapping mapping;
      for (const char *at = maps; (at = next_mapping (at, &mapping)) != NULL;)
        if (mapping.is_of_file && mapping.offset == 0)
          auditors_found |= functions_at (maps, &mapping);
    }
  if (maps != NULL)
    sys_unmap (maps, MAPS_SIZE);
}
