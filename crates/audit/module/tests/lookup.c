/* The module's reader of the table as an ordinary program, for sanitizers and timing.

     lookup TABLE answer OBJECT NEEDED       prints the answer, or nothing
     lookup TABLE damage COUNT SEED          flips bits, and resolves everything each time: an
                                             answer is the right one or none
     lookup TABLE time ROUNDS                nanoseconds a lookup, over all objects and edges

   The table is copied to memory of exactly its size, so that sanitizers detect a read beyond it. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../hash.c"
#include "../table.c"

static unsigned char *copy;
static uint64_t copy_length;

const unsigned char *
table_place (uint64_t *length)
{
  *length = copy_length;
  return copy;
}

int
file_end_is_there (const char *end, size_t size)
{
  (void) end;
  (void) size;
  return 1;
}

static uint64_t
draw (uint64_t *seed)
{
  *seed += 0x9e3779b97f4a7c15u;
  return hash_bytes (0, seed, sizeof *seed);
}

static const char *
resolve (const char *path, const char *needed)
{
  const char *answer = NULL;
  if (table_find_edge (table_find_object (path), needed, &answer) == NULL)
    return NULL;
  return answer;
}

struct known
{
  char *path, *needed, *answer;
};

static char *
keep (const char *text)
{
  char *kept = malloc (strlen (text) + 1);
  return strcpy (kept, text);
}

/* Returns every lookup of the undamaged table, with its answer. */
static struct known *
collect (size_t *count)
{
  size_t most = 2 * (size_t) sections[SECTION_EDGES].count;
  struct known *all = calloc (most + 1, sizeof *all);
  *count = 0;
  for (uint32_t i = 0; i < sections[SECTION_OBJECTS].count; i++)
    {
      const struct table_object *object = (const struct table_object *) sections[SECTION_OBJECTS].records + i;
      const char *path = table_string (object->path);
      for (uint32_t e = 0; e < object->edge_count && *count < most; e++)
        {
          const struct table_edge *edge
              = (const struct table_edge *) sections[SECTION_EDGES].records + object->edges + e;
          const char *answer = table_string (edge->path);
          struct known known = { keep (path), keep (strrchr (answer, '/') + 1), keep (answer) };
          all[(*count)++] = known;
        }
    }
  return all;
}

/* Reads conditions, sets and directories: their values are not compared, but no read may exceed
   the table. */
static void
touch_the_rest (void)
{
  const char *path;
  uint32_t count;
  for (uint32_t i = 0; i <= sections[SECTION_CONDITIONS].count; i++)
    table_record (SECTION_CONDITIONS, i, &path);
  for (uint32_t i = 0; i <= sections[SECTION_POOL].count; i += 7)
    table_set (i, &count);
  const struct table_directory *known = table_find_directory ("/opt/store", 10);
  if (known != NULL)
    table_has_name (&known->names, "libc.so.6");
}

static void
seal (struct table_header *h)
{
  size_t length = h->section_count * sizeof (struct table_section);
  if (h->section_count <= MAX_SECTIONS && sizeof *h + length <= copy_length)
    h->check = (uint32_t) hash_bytes (hash_bytes (0, h + 1, length), h, offsetof (struct table_header, check));
}

static int
damage (unsigned long rounds, uint64_t seed)
{
  size_t count;
  struct known *all = collect (&count);
  unsigned char *whole = malloc (copy_length);
  memcpy (whole, copy, copy_length);
  unsigned long lost = 0;
  for (unsigned long round = 0; round < rounds; round++)
    {
      memcpy (copy, whole, copy_length);
      /* Every fourth time in the header and its directory. */
      uint64_t bits = 8 * copy_length, bit = draw (&seed) % (round % 4 == 0 ? 2048 : bits);
      copy[bit / 8] ^= (unsigned char) (1u << bit % 8);
      /* Every second time the header's checksum is renewed, so that the data after it is tested. */
      struct table_header *h = (struct table_header *) copy;
      if (round % 2 == 0)
        seal (h);
      state = UNREAD;
      memset (sections, 0, sizeof sections);
      if (!table_ready ())
        continue;
      touch_the_rest ();
      for (int i = 0; i < 200 && count > 0; i++)
        {
          struct known *k = &all[draw (&seed) % count];
          const char *answer = resolve (k->path, k->needed);
          if (answer == NULL)
            lost++;
          else if (strcmp (answer, k->answer) != 0)
            {
              printf ("bit %lu: %s needs %s: %s, not %s\n", (unsigned long) bit, k->path,
                      k->needed, answer, k->answer);
              return 1;
            }
        }
    }
  printf ("%lu rounds, %lu questions unanswered, none wrongly\n", rounds, lost);
  return 0;
}

static int
measure (unsigned long rounds)
{
  size_t count, found = 0;
  struct known *all = collect (&count);
  if (count == 0)
    return 1;
  uint64_t seed = 1;
  struct timespec from, to;
  clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &from);
  for (unsigned long round = 0; round < rounds; round++)
    {
      struct known *k = &all[draw (&seed) % count];
      found += resolve (k->path, k->needed) != NULL;
    }
  clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &to);
  double ns = 1e9 * (double) (to.tv_sec - from.tv_sec) + (double) (to.tv_nsec - from.tv_nsec);
  printf ("%.0f ns a lookup of object and edge, %zu edges, %zu found\n", ns / (double) rounds,
          count, found);
  return found == rounds ? 0 : 1;
}

int
main (int argc, char **argv)
{
  if (argc < 4)
    return 2;
  FILE *file = fopen (argv[1], "rb");
  if (file == NULL)
    return 2;
  fseek (file, 0, SEEK_END);
  copy_length = (uint64_t) ftell (file);
  rewind (file);
  copy = malloc (copy_length);
  if (fread (copy, 1, copy_length, file) != copy_length)
    return 2;
  fclose (file);
  int usable = table_ready ();
  if (strcmp (argv[2], "answer") == 0 && argc == 5)
    {
      const char *answer = usable ? resolve (argv[3], argv[4]) : NULL;
      printf ("%s", answer != NULL ? answer : "");
      return 0;
    }
  if (!usable)
    return 1;
  if (strcmp (argv[2], "damage") == 0 && argc == 5)
    return damage (strtoul (argv[3], NULL, 10), strtoul (argv[4], NULL, 10));
  return strcmp (argv[2], "time") == 0 ? measure (strtoul (argv[3], NULL, 10)) : 2;
}
