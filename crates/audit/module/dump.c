/* Every slot that a relocation of the start names, with its value at the end of the start:

     object NUMBER PATH
     slot OFFSET TYPE NUMBER+OFFSET    an address in an object
     slot OFFSET TYPE =VALUE           anything else

   Numbers count the objects of the link map; offsets are hexadecimal. Two starts of a program
   whose address space is not randomised have the same lines if they were relocated in the same
   way. */
#include "dump.h"
#include "dynamic.h"
#include "headers.h"
#include "process.h"
#include "system.h"

#define MAX_OBJECTS 8192u
#define BUFFER_SIZE (1u << 18)

struct range
{
  elf_word addr, low, high;
};

/* The address of the relocations, and the size of each. */
struct relocations
{
  const unsigned char *rel, *jmprel;
  elf_word rel_size, jmprel_size, entry, jmprel_entry;
  const elf_word *relr;
  elf_word relr_size;
};

static struct range *ranges STATE = NULL;
static unsigned range_count STATE = 0;
static char *out STATE = NULL;
static size_t used STATE = 0;
static int file STATE = 0;

static void
flush (void)
{
  size_t at = 0;
  while (at < used)
    {
      long written = sys_write (file, out + at, used - at);
      if (written <= 0)
        break;
      at += (size_t) written;
    }
  used = 0;
}

static void
put_text (const char *text)
{
  for (; *text != '\0'; text++)
    {
      if (used == BUFFER_SIZE)
        flush ();
      out[used++] = *text;
    }
}

static void
put_hexadecimal (elf_word value)
{
  char digits[DIGITS_SIZE];
  put_text (hexadecimal_of (value, digits));
}

/* Returns the segments of an object, by its program headers. Those of the program are where the
   kernel says; those of other objects follow the ELF header, which is mapped first. */
static struct range
range_of (const struct link_map *map, int is_program)
{
  const elf_ehdr *header = (const elf_ehdr *) map->addr;
  struct headers headers = { NULL, 0 };
  struct range range = { map->addr, ~(elf_word) 0, 0 };
  if (is_program && process.headers.first != NULL)
    headers = process.headers;
  else if (map->addr != 0)
    headers = (struct headers) { (const elf_phdr *) (map->addr + header->phoff), header->phnum };
  for (unsigned i = 0; i < headers.count; i++)
    if (headers.first[i].type == PT_LOAD)
      {
        elf_word low = map->addr + headers.first[i].vaddr, high = low + headers.first[i].memsz;
        range.low = low < range.low ? low : range.low;
        range.high = high > range.high ? high : range.high;
      }
  return range;
}

/* An unaligned word may be a smaller value that was copied, with a part of the next. */
static void
put_value (elf_word value, int is_aligned)
{
  for (unsigned i = 0; i < range_count; i++)
    if (value >= ranges[i].low && value <= ranges[i].high)
      {
        put_hexadecimal (i);
        put_text ("+");
        put_hexadecimal (value - ranges[i].addr);
        return;
      }
  put_text ("=");
  put_hexadecimal (is_aligned ? value : (uint32_t) value);
}

static void
put_slot (elf_word addr, elf_word offset, elf_word type)
{
  put_text ("slot ");
  put_hexadecimal (offset);
  put_text (" ");
  put_hexadecimal (type);
  put_text (" ");
  put_value (*(const elf_word *) (addr + offset), offset % sizeof (elf_word) == 0);
  put_text ("\n");
}

static void
put_table (elf_word addr, const unsigned char *at, elf_word size, elf_word entry)
{
  for (const unsigned char *end = at + size; at != NULL && entry != 0 && at < end; at += entry)
    {
      const elf_word *words = (const elf_word *) at;
      elf_word type = words[1] & (sizeof (elf_word) == 8 ? 0xffffffffu : 0xffu);
      if (type != 0)
        put_slot (addr, words[0], type);
    }
}

/* The bitmaps of DT_RELR (gABI). */
static void
put_relr (elf_word addr, const struct relocations *r)
{
  elf_word offset = 0;
  for (elf_word i = 0; i < r->relr_size / sizeof (elf_word); i++)
    {
      elf_word bits = r->relr[i];
      if (!(bits & 1))
        {
          put_slot (addr, bits, 0);
          offset = bits + sizeof (elf_word);
          continue;
        }
      for (elf_word at = offset; (bits >>= 1) != 0; at += sizeof (elf_word))
        if (bits & 1)
          put_slot (addr, at, 0);
      offset += (8 * sizeof (elf_word) - 1) * sizeof (elf_word);
    }
}

static struct relocations
find_relocations (const struct link_map *map)
{
  enum { RELA = 7, RELASZ = 8, REL = 17, RELSZ = 18, JMPREL = 23, PLTRELSZ = 2, PLTREL = 20,
         RELR = 36, RELRSZ = 35 };
  const elf_word rela = 3 * sizeof (elf_word), rel = 2 * sizeof (elf_word);
  struct relocations r = { 0 };
  for (const elf_dyn *entry = map->dynamic; entry->tag != 0; entry++)
    {
      const unsigned char *at = (const unsigned char *) dynamic_address (map, entry->value);
      switch (entry->tag)
        {
        case RELA: r.rel = entry->value != 0 ? at : NULL; r.entry = rela; break;
        case REL: r.rel = entry->value != 0 ? at : NULL; r.entry = rel; break;
        case RELASZ: case RELSZ: r.rel_size = entry->value; break;
        case JMPREL: r.jmprel = at; break;
        case PLTRELSZ: r.jmprel_size = entry->value; break;
        case PLTREL: r.jmprel_entry = entry->value == RELA ? rela : rel; break;
        case RELR: r.relr = (const elf_word *) at; break;
        case RELRSZ: r.relr_size = entry->value; break;
        }
    }
  return r;
}

static void
put_object (unsigned number, const struct link_map *map)
{
  struct relocations r = find_relocations (map);
  put_text ("object ");
  put_hexadecimal (number);
  put_text (" ");
  put_text (map->name != NULL ? map->name : "");
  put_text ("\n");
  put_table (map->addr, r.rel, r.rel_size, r.entry);
  put_table (map->addr, r.jmprel, r.jmprel_size, r.jmprel_entry);
  if (r.relr != NULL)
    put_relr (map->addr, &r);
}

void
dump_slots (const struct link_map *program)
{
  /* A process of the program that is started later does not overwrite the file. */
  const int write_create_exclusive_cloexec = 01 | 0100 | 0200 | 02000000;
  const char *path = process.dump;
  if (path == NULL)
    return;
  ranges = sys_allocate (MAX_OBJECTS * sizeof *ranges);
  out = sys_allocate (BUFFER_SIZE);
  file = (int) sys_open (path, write_create_exclusive_cloexec, 0666);
  if (ranges == NULL || out == NULL || file < 0)
    return;
  for (const struct link_map *map = program; map != NULL && range_count < MAX_OBJECTS;
       map = map->next)
    ranges[range_count++] = range_of (map, map == program);
  unsigned number = 0;
  for (const struct link_map *map = program; map != NULL && number < range_count;
       map = map->next, number++)
    /* The kernel relocated the vDSO; the loader relocated itself. */
    if (map->dynamic != NULL && !process_is_vdso (map))
      put_object (number, map);
  flush ();
  sys_close (file);
  sys_unmap (out, BUFFER_SIZE);
  sys_unmap (ranges, MAX_OBJECTS * sizeof *ranges);
}
