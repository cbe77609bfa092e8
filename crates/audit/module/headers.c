#include "headers.h"
#include "process.h"
#include "system.h"

#define PAGE 4096u

struct headers
headers_of (const struct link_map *map, int is_program)
{
  struct headers none = { NULL, 0 };
  if (is_program)
    return process.headers;
  const elf_ehdr *header = (const elf_ehdr *) map->addr;
  struct statx ignored;
  /* As a path: the kernel returns EFAULT only if it cannot read a string there, because the page is unreadable, or
     behind the end of a file. */
  if (map->addr == 0 || map->addr % PAGE != 0
      || sys_stat_at (-1, (const char *) header, 0, &ignored) == EFAULT_NEG
      || memcmp (header->ident, "\177ELF", 4) != 0 || header->phentsize != sizeof (elf_phdr)
      || header->phoff + (elf_word) header->phnum * sizeof (elf_phdr) > PAGE)
    return none;
  struct headers library
      = { (const elf_phdr *) (map->addr + header->phoff), header->phnum };
  const elf_phdr *dynamic = header_of (library, PT_DYNAMIC);
  /* Those of that object. */
  return dynamic != NULL && (const elf_dyn *) (map->addr + dynamic->vaddr) == map->dynamic ? library : none;
}
