/* Relocation writes into private pages, which the kernel copies one by one, and writes the same words in
   each start, but for the load addresses. With the same addresses the pages can be mapped from a file
   (crates/lib/src/pages).

   `mmap` without an address takes the highest gap that is large enough. One mapping without access from a
   chosen place up to the lowest mapping of the loader makes this place the end of the highest gap. The
   loader's own calls then map the libraries one below the other, in the order of its calls. The mapping
   is removed at the end of the start, and what is mapped later is placed by the kernel.

   Only if each object is where the file expects it are the pages used; otherwise the start is bound as
   without the file. The results of resolvers (IFUNC), what the loader wrote for thread-local storage and
   for lazy binding, and addresses in objects that the kernel places are written in each start. */
#include "pages.h"
#include "ahead.h"
#include "bound.h"
#include "hash.h"
#include "log.h"
#include "process.h"
#include "stubs.h"
#include "system.h"

#if HAS_PAGES

# define PAGE 4096u
# define R_TLSDESC 36u
# define R_IRELATIVE 37u
# define NO_FOLLOW 0400000
# define BOOT "/proc/sys/kernel/random/boot_id"
# define BOOT_SIZE 36u
# define NAME_SIZE 1100u

# define PAGES_MAGIC "becalmPG"
# define PAGES_VERSION 1u

/* The file begins with this; `check` is hash_bytes with PAGES_VERSION of what follows it, up to `tables`
   bytes from the beginning. */
struct header
{
  char magic[8];
  uint64_t check;
  uint32_t version, tables;
  uint64_t size;
  /* The end of the highest library, and the number of holes (steer). */
  uint64_t top;
  uint32_t holes;
  /* Of the record of the program. */
  uint32_t members_check, members;
  uint32_t runs, words, relas;
  /* Checksum of the index. */
  uint64_t table;
  char boot[40];
};

/* Pages that follow each other: in the object, how many, in the file. */
struct pages_run
{
  uint32_t at, count, from, spare;
};

/* A word with the address of a member that the kernel places, and a distance. */
struct pages_word
{
  uint32_t at, member;
  uint64_t distance;
};

_Static_assert (sizeof (struct header) == 112, "as becalm writes it");
_Static_assert (sizeof (struct pages_object) == 48, "as becalm writes it");
_Static_assert (sizeof (struct pages_run) == 16, "as becalm writes it");
_Static_assert (sizeof (struct pages_word) == 16, "as becalm writes it");
_Static_assert (sizeof (struct rela) == 24, "as becalm writes it");

/* A word as the loader wrote it. */
struct kept
{
  elf_word *at, value;
};

# define MOST_KEPT 4096u
# define GAPS 64u

static const struct header *head STATE = NULL;
static const struct pages_object *objects STATE = NULL;
static const struct pages_run *runs STATE = NULL;
static const struct pages_word *words STATE = NULL;
static const struct rela *relas STATE = NULL;
static int file STATE = 0;
/* The descriptor of BECALM=steer:. */
static int steering STATE = 0;
static uint64_t file_size STATE = 0;
static struct kept *kept STATE = NULL;
static uint64_t fence STATE = 0, fence_size STATE = 0;
static uint32_t holes STATE = 0;
/* What the kernel left free above the floor, as it aligns large files. */
static struct
{
  uint64_t at, size;
} gaps[GAPS] STATE = { { 0, 0 } };
static uint32_t gap_count STATE = 0, used STATE = 0;
static unsigned char is_made STATE = 0;

static int
failed (long result)
{
  return (unsigned long) result >= -4095UL;
}

static long
reserve (uint64_t at, uint64_t size)
{
  const long private_anonymous_no_reserve = 0x4022, not_over_others = 0x100000;
  const long flags = private_anonymous_no_reserve | (at != 0 ? not_over_others : 0);
  return system_call_6 (NR_mmap, (long) at, (long) size, 0, flags, -1, 0);
}

/* The loader's own allocations are of two pages, whenever the ones before are full; that depends on the
   length of arguments and environment. They go into holes at the upper end, which are too small for a
   library. */
static void
steer (uint64_t top, uint32_t hole_count)
{
  /* No multiple of 2 MB, which the kernel would align. */
  const uint64_t probe = (1ul << 30) + PAGE;
  long floor = reserve (0, probe);
  if (failed (floor))
    return;
  if ((uint64_t) floor <= top || failed (reserve (top, (uint64_t) floor - top)))
    {
      sys_unmap ((void *) floor, probe);
      return;
    }
  for (uint64_t size = (4ul << 20) + PAGE; size >= PAGE && gap_count < GAPS;)
    {
      long at = reserve (0, size);
      if (failed (at))
        break;
      if (at > floor)
        {
          gaps[gap_count].at = (uint64_t) at;
          gaps[gap_count++].size = size;
          continue;
        }
      sys_unmap ((void *) at, size);
      size = size == 3 * PAGE ? 2 * PAGE : size / 2 / PAGE * PAGE;
    }
  holes = hole_count;
  fence = top;
  fence_size = (uint64_t) floor + probe - top - (3ul * holes + 1) * PAGE;
  for (uint32_t i = 0; i < holes; i++)
    sys_unmap ((void *) (fence + fence_size + (3ul * i + 1) * PAGE), 2 * PAGE);
}

/* Writes FOLDER/NAME, with the name of the program's file; returns 0 if it is too long. */
static int
name_file (char *to, const char *folder, const struct table_bound_program *program)
{
  const uint64_t numbers[2] = { table_header->checksum, (uint64_t) program->path_hash << 32 };
  char name[25] = { 0 };
  for (unsigned i = 0; i < 24; i++)
    name[i] = "0123456789abcdef"[numbers[i / 16] >> (60 - 4 * (i % 16)) & 15];
  return join_path (to, NAME_SIZE, folder, strlen (folder), name);
}

/* True if the tables are whole, and within the file. */
static int
tables_hold (uint64_t size)
{
  const size_t checked = offsetof (struct header, version);
  if (size < sizeof *head || memcmp (head->magic, PAGES_MAGIC, sizeof head->magic) != 0
      || head->version != PAGES_VERSION || head->size != size || head->tables > size
      || head->tables
             != sizeof *head + head->members * sizeof *objects + head->runs * sizeof *runs
                    + head->words * sizeof *words + head->relas * sizeof *relas
      || head->check
             != hash_bytes (PAGES_VERSION, (const char *) head + checked, head->tables - checked))
    return 0;
  objects = (const struct pages_object *) (head + 1);
  runs = (const struct pages_run *) (objects + head->members);
  words = (const struct pages_word *) (runs + head->runs);
  relas = (const struct rela *) (words + head->words);
  return 1;
}

static void
close_file (void)
{
  if (head == NULL)
    return;
  sys_unmap (head, file_size);
  sys_close (file);
  head = NULL;
}

/* Opens the file of a program; returns the reason if it cannot be used. Its name may be that of another
   user's file, and its contents become the memory of this process. */
static const char *
open_file (const char *name)
{
  struct statx found;
  long fd = sys_open (name, CLOSE_ON_EXEC | NO_FOLLOW | NONBLOCK, 0);
  if (fd < 0)
    return fd == ENOENT_NEG ? "missing" : "unreadable";
  const unsigned char *mapped = NULL;
  if (sys_stat_open ((int) fd, &found) == 0 && (found.mode & 0170077) == 0100000
      && found.uid == process.user && found.size >= sizeof *head)
    mapped = sys_map ((int) fd, found.size);
  if (mapped == NULL)
    {
      sys_close ((int) fd);
      return "unreadable";
    }
  head = (const struct header *) mapped;
  file = (int) fd;
  file_size = found.size;
  char boot[BOOT_SIZE];
  if (tables_hold (found.size) && sys_read_file (BOOT, boot, sizeof boot) == sizeof boot
      && memcmp (boot, head->boot, sizeof boot) == 0)
    return NULL;
  close_file ();
  return "other-file";
}

void
pages_begin (const struct table_bound_program *program)
{
  char name[NAME_SIZE];
  const char *folder = process.pages;
  const char *at = process.steering;
  if (at != NULL)
    {
      steering = (int) read_decimal (&at);
      at += *at == '/';
      const uint64_t top = read_decimal (&at);
      at += *at == '/';
      steer (top, (uint32_t) read_decimal (&at));
    }
  else if (folder != NULL && !process.bind_now && !stubs_are_wanted ()
           && name_file (name, folder, program))
    {
      const char *why = open_file (name);
      if (why != NULL)
        {
          log_line ("pages", NULL, "declined", why, NULL);
          ahead_make_pages ();
        }
      /* An empty file: the program has too few pages. */
      else if (head->runs > 0)
        steer (head->top, head->holes);
      else
        close_file ();
    }
}

void
pages_arm (const struct table_bound_program *program)
{
  const char *why = NULL;
  if (head == NULL)
    return;
  if (head->members_check != program->members_check || head->members != program->member_count)
    why = "other-objects";
  else if (start.has_other_times)
    why = "other-times";
  for (uint32_t i = 0; why == NULL && i < program->member_count; i++)
    if (objects[i].addr != 0 && objects[i].addr != start.places[i].addr)
      why = "moved";
  kept = why == NULL ? sys_allocate (MOST_KEPT * sizeof *kept) : NULL;
  if (why == NULL && kept == NULL)
    why = "memory";
  if (why != NULL)
    {
      log_line ("pages", NULL, "declined", why, NULL);
      if (text_equal (why, "moved"))
        ahead_make_pages ();
      close_file ();
      return;
    }
  for (uint32_t i = 0; i < program->member_count; i++)
    if (objects[i].runs > 0)
      {
        start.places[i].pages = &objects[i];
        used++;
      }
}

/* The results of resolvers are compared by pages_map. */
struct rela *
pages_entries (const struct place *place, struct rela *to)
{
  const struct rela *from = relas + place->pages->rela;
  for (uint32_t i = 0; i < place->pages->relas; i++)
    if ((uint32_t) from[i].info != R_IRELATIVE)
      *to++ = from[i];
  return to;
}

static uint32_t
keep (uint32_t count, elf_word addr, elf_word offset, uint32_t number)
{
  for (uint32_t i = 0; i < number && count < MOST_KEPT; i++, count++)
    {
      kept[count].at = (elf_word *) (addr + offset) + i;
      kept[count].value = *kept[count].at;
    }
  return count;
}

/* Keeps what the loader has written into the object by now. */
static uint32_t
keep_all (const struct place *place)
{
  const struct pages_object *object = place->pages;
  const struct rela *from = relas + object->rela;
  uint32_t count = keep (0, place->addr, object->dynamic, object->dynamic_words);
  if (object->got != 0)
    count = keep (count, place->addr, object->got + sizeof (elf_word), 2);
  for (uint32_t i = 0; i < object->relas; i++)
    if ((uint32_t) from[i].info != R_IRELATIVE)
      count = keep (count, place->addr, from[i].offset, (uint32_t) from[i].info == R_TLSDESC ? 2 : 1);
  return count;
}

/* A word that is the same is not written: the page stays that of the file. */
static void
set (elf_word *at, elf_word value)
{
  if (*at != value)
    *at = value;
}

static void
map_run (elf_word addr, const struct pages_run *run)
{
  const long readable_writable = 3, private_fixed = 0x12;
  const uint64_t to = addr + (uint64_t) run->at * PAGE, size = (uint64_t) run->count * PAGE;
  const uint64_t from = (uint64_t) run->from * PAGE;
  if (!failed (system_call_6 (NR_mmap, (long) to, (long) size, readable_writable, private_fixed, file, (long) from)))
    return;
  /* Too many mappings: the same bytes are read. */
  for (uint64_t done = 0; done < size;)
    {
      long length = system_call (NR_pread64, file, (long) (to + done), (long) (size - done),
                                 (long) (from + done), 0);
      if (length <= 0)
        sys_exit (127);
      done += (uint64_t) length;
    }
}

void
pages_map (const struct place *place)
{
  const struct pages_object *object = place->pages;
  const uint32_t count = keep_all (place);
  for (uint32_t i = 0; i < object->runs; i++)
    map_run (place->addr, &runs[object->run + i]);
  for (uint32_t i = 0; i < count; i++)
    set (kept[i].at, kept[i].value);
  for (uint32_t i = 0; i < object->words; i++)
    {
      const struct pages_word *word = &words[object->word + i];
      set ((elf_word *) (place->addr + word->at),
           start.places[word->member].addr + word->distance);
    }
  for (uint32_t i = 0; i < object->relas; i++)
    {
      const struct rela *rela = &relas[object->rela + i];
      if ((uint32_t) rela->info == R_IRELATIVE)
        {
          elf_word (*choose) (void) = (elf_word (*) (void)) (place->addr + (elf_word) rela->addend);
          set ((elf_word *) (place->addr + rela->offset), choose ());
        }
    }
}

/* Writes where each object is, and the relocations that the loader was given for it, into the
   descriptor of BECALM=steer:. */
static void
tell (const struct table_bound_program *program)
{
  const uint32_t numbers[2] = { program->members_check, program->member_count };
  sys_write (steering, numbers, sizeof numbers);
  for (uint32_t i = 0; i < program->member_count; i++)
    {
      const struct place *place = &start.places[i];
      const uint64_t of_place[2] = { place->addr, place->lent != NULL ? place->lent_count : ~0ul };
      sys_write (steering, of_place, sizeof of_place);
      if (place->lent != NULL)
        sys_write (steering, place->lent, place->lent_count * sizeof *place->lent);
    }
}

void
pages_finish (const struct table_bound_program *program)
{
  char digits[DIGITS_SIZE];
  if (process.steering != NULL && program != NULL && fence != 0)
    {
      tell (program);
      is_made = 1;
    }
  if (fence != 0)
    {
      sys_unmap ((void *) fence, fence_size + PAGE);
      for (uint32_t i = 1; i <= holes; i++)
        sys_unmap ((void *) (fence + fence_size + 3ul * i * PAGE), PAGE);
      fence = 0;
    }
  for (; gap_count > 0; gap_count--)
    sys_unmap ((void *) gaps[gap_count - 1].at, gaps[gap_count - 1].size);
  if (head != NULL && program != NULL)
    log_line ("pages", NULL, "mapped", digits_of (used, digits), NULL);
  if (kept != NULL)
    sys_unmap (kept, MOST_KEPT * sizeof *kept);
  kept = NULL;
  close_file ();
}

int
pages_wait (void)
{
  const long stop = 19;
  if (is_made)
    system_call (NR_kill, sys_getpid (), stop, 0, 0, 0);
  return is_made;
}

#endif
