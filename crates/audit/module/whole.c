/* Checks that the module is as becalm wrote it. A flipped bit in its code would be executed, so
   everything that can be checked is checked first: the headers and symbols before the dynamic
   section (the loader writes to the part after it), code and constants, and the state, which is
   zero at first. `becalm_core::index::embed` stores the checksum; zero means that there is none. */
#include "whole.h"
#include "hash.h"

#define SEED 1u

extern const elf_ehdr __ehdr_start __attribute__ ((visibility ("hidden")));
extern const elf_dyn _DYNAMIC[] __attribute__ ((visibility ("hidden")));
extern const uint64_t becalm_state[] __attribute__ ((visibility ("hidden")));
extern const uint64_t becalm_state_end[] __attribute__ ((visibility ("hidden")));
extern const unsigned char becalm_text[] __attribute__ ((visibility ("hidden")));
extern const uint64_t becalm_check[] __attribute__ ((visibility ("hidden")));
extern const unsigned char becalm_table[] __attribute__ ((visibility ("hidden")));

int
module_is_whole (void)
{
  if (*becalm_check == 0)
    return 1;
  uint64_t any = 0;
  for (const uint64_t *word = becalm_state; word != becalm_state_end; word++)
    any |= *word;
  uint64_t head = hash_bytes (SEED, &__ehdr_start, (uintptr_t) _DYNAMIC - (uintptr_t) &__ehdr_start);
  uint64_t text = hash_block (head, becalm_text, (uintptr_t) becalm_check - (uintptr_t) becalm_text);
  return any == 0 && text == *becalm_check;
}

int
module_has_bindings (void)
{
  const unsigned char *after = (const unsigned char *) (becalm_check + 1);
  return *after != 0;
}

/* The table follows the module's own constants, in its last segment. */
const unsigned char *
table_place (uint64_t *length)
{
  const unsigned char *base = (const unsigned char *) &__ehdr_start;
  const elf_phdr *phdr = (const elf_phdr *) (base + __ehdr_start.phoff);
  uint64_t end = 0;
  for (unsigned i = 0; i < __ehdr_start.phnum && i < 8; i++)
    if (phdr[i].type == PT_LOAD)
      end = (uint64_t) phdr[i].vaddr + phdr[i].filesz;
  uint64_t start = (uint64_t) (becalm_table - base);
  *length = end > start ? end - start : 0;
  return becalm_table;
}

/* If the module's file is shorter than its program headers say, touching the missing part would end the
   process. The kernel returns an error instead, so it is given a path that ends where the file does: that of the
   first root, whose answer is needed in any case. */
struct first_root first_root STATE = { 0 };

int
file_end_is_there (const char *end, size_t size)
{
  first_root.result = sys_stat (end, &first_root.found);
  /* Padded with slashes at the front, the path ends where the file does: then the kernel has
     read it all. */
  size_t length = 0;
  while (first_root.result != EFAULT_NEG && length < size && end[length] != '\0')
    length++;
  if (length != size - 1)
    return 0;
  while (end[0] == '/' && end[1] == '/')
    end++;
  first_root.path = end;
  return 1;
}
