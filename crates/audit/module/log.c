/* The log: one line a call, written at once to a file opened for it. Nothing stays open in a program
   that may close or count its files. The dump is below. */
#include <stdarg.h>
#include "log.h"
#include "dynamic.h"
#include "process.h"
#include "system.h"

/* If the file is a FIFO, do not wait for a reader either. */
#define O_WRONLY_CREAT_APPEND_NONBLOCK_CLOEXEC (01 | 0100 | 02000 | 04000 | 02000000)
#define LINE_SIZE 8192u

static char line[LINE_SIZE] BUFFER = { 0 };
static size_t used STATE = 0;

static void
put_byte (char c)
{
  if (used < LINE_SIZE - 1)
    line[used++] = c;
}

/* Writes tab, newline and backslash as \t, \n and \\, so that an entry stays on one line. */
static void
put_text (const char *s)
{
  for (; *s != '\0'; s++)
    {
      char escaped = *s == '\t' ? 't' : *s == '\n' ? 'n' : *s == '\\' ? '\\' : 0;
      if (escaped != 0)
        put_byte ('\\');
      put_byte (escaped != 0 ? escaped : *s);
    }
}

void
log_line (const char *what, const void *cookie, ...)
{
  char digits[DIGITS_SIZE];
  if (process.log == NULL)
    return;
  used = 0;
  put_text (digits_of ((unsigned long) sys_getpid (), digits));
  put_byte ('\t');
  put_text (what);
  put_byte ('\t');
  put_text (hexadecimal_of ((unsigned long) cookie, digits));
  va_list fields;
  va_start (fields, cookie);
  for (const char *field; (field = va_arg (fields, const char *)) != NULL;)
    {
      put_byte ('\t');
      put_text (field);
    }
  va_end (fields);
  put_byte ('\n');
  long fd = sys_open (process.log, O_WRONLY_CREAT_APPEND_NONBLOCK_CLOEXEC, 0666);
  if (fd < 0)
    return;
  sys_write ((int) fd, line, used);
  sys_close ((int) fd);
}

/* Every slot that a relocation of the start names, with its value at the end of the start:

     object NUMBER PATH
     slot OFFSET TYPE NUMBER+OFFSET    an address in an object
     slot OFFSET TYPE =VALUE           anything else

   Numbers count the objects of the link map; offsets are hexadecimal. Two starts of a program
   whose address space is not randomised have the same lines if they were relocated in the same
   way. */
#define MAX_OBJECTS 8192u
enum { DT_REL = 17, DT_RELSZ = 18, DT_PLTREL = 20, DT_JMPREL = 23, DT_RELRSZ = 35, DT_RELR = 36 };

struct range
{
  elf_word addr, low, high;
};

static struct range *ranges STATE = NULL;
static unsigned range_count STATE = 0;
static int file STATE = 0;

static void
flush (void)
{
  size_t at = 0;
  while (at < used)
    {
      long written = sys_write (file, line + at, used - at);
      if (written <= 0)
        break;
      at += (size_t) written;
    }
  used = 0;
}

static void
put (const char *text)
{
  for (; *text != '\0'; text++)
    {
      if (used == LINE_SIZE)
        flush ();
      line[used++] = *text;
    }
}

static void
put_hexadecimal (elf_word value)
{
  char digits[DIGITS_SIZE];
  put (hexadecimal_of (value, digits));
}

/* Returns the segments of an object. */
static struct range
range_of (const struct link_map *map, int is_program)
{
  const struct headers headers = headers_of (map, is_program && process.headers.first != NULL);
  struct range range = { map->addr, ~(elf_word) 0, 0 };
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
        put ("+");
        put_hexadecimal (value - ranges[i].addr);
        return;
      }
  put ("=");
  put_hexadecimal (is_aligned ? value : (uint32_t) value);
}

static void
put_slot (elf_word addr, elf_word offset, elf_word type)
{
  put ("slot ");
  put_hexadecimal (offset);
  put (" ");
  put_hexadecimal (type);
  put (" ");
  put_value (*(const elf_word *) (addr + offset), offset % sizeof (elf_word) == 0);
  put ("\n");
}

/* Writes the slots of a table of relocations with ENTRY bytes each. */
static void
put_table (const struct link_map *map, elf_sword table, elf_sword size, elf_word entry)
{
  const unsigned char *at = dynamic_table (map, table);
  for (const unsigned char *end = at + dynamic_value (map, size); at != NULL && at < end; at += entry)
    {
      const elf_word *words = (const elf_word *) at;
      elf_word type = words[1] & (sizeof (elf_word) == 8 ? 0xffffffffu : 0xffu);
      if (type != 0)
        put_slot (map->addr, words[0], type);
    }
}

/* The bitmaps of DT_RELR (gABI). */
static void
put_relr (const struct link_map *map)
{
  const elf_word *relr = dynamic_table (map, DT_RELR);
  const elf_word count = relr != NULL ? dynamic_value (map, DT_RELRSZ) / sizeof *relr : 0;
  elf_word offset = 0;
  for (elf_word i = 0; i < count; i++)
    {
      elf_word bits = relr[i];
      if (!(bits & 1))
        {
          put_slot (map->addr, bits, 0);
          offset = bits + sizeof *relr;
          continue;
        }
      for (elf_word at = offset; (bits >>= 1) != 0; at += sizeof *relr)
        if (bits & 1)
          put_slot (map->addr, at, 0);
      offset += (8 * sizeof *relr - 1) * sizeof *relr;
    }
}

static void
put_object (unsigned number, const struct link_map *map)
{
  const elf_word rela = 3 * sizeof (elf_word), rel = 2 * sizeof (elf_word);
  put ("object ");
  put_hexadecimal (number);
  put (" ");
  put (map->name != NULL ? map->name : "");
  put ("\n");
  put_table (map, DT_RELA, DT_RELASZ, rela);
  put_table (map, DT_REL, DT_RELSZ, rel);
  put_table (map, DT_JMPREL, DT_PLTRELSZ, dynamic_value (map, DT_PLTREL) == DT_RELA ? rela : rel);
  put_relr (map);
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
  file = (int) sys_open (path, write_create_exclusive_cloexec, 0666);
  if (ranges == NULL || file < 0)
    return;
  used = 0;
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
  sys_unmap (ranges, MAX_OBJECTS * sizeof *ranges);
}
