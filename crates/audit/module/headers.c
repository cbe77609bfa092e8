#include "headers.h"
#include "process.h"
#include "system.h"

#define PAGE 4096u

/* True if these are the headers of that object. */
static int
are_of (const struct headers *headers, const struct link_map *map)
{
  for (unsigned i = 0; i < headers->count; i++)
    if (headers->first[i].type == PT_DYNAMIC)
      return (const elf_dyn *) (map->addr + headers->first[i].vaddr) == map->dynamic;
  return 0;
}

struct headers
headers_of (const struct link_map *map, int is_program)
{
  struct headers none = { NULL, 0 };
  if (is_program)
    return process.headers;
  const elf_ehdr *header = (const elf_ehdr *) map->addr;
  if (map->addr == 0 || map->addr % PAGE != 0 || !sys_is_readable (header)
      || memcmp (header->ident, "\177ELF", 4) != 0 || header->phentsize != sizeof (elf_phdr)
      || header->phoff + (elf_word) header->phnum * sizeof (elf_phdr) > PAGE)
    return none;
  struct headers library
      = { (const elf_phdr *) (map->addr + header->phoff), header->phnum };
  return are_of (&library, map) ? library : none;
}
