/* Answers lookups along LD_LIBRARY_PATH without its misses. A listed directory has its names in the
   table, and costs one check in a batch of lookups. The table is read first: if it shows that the
   lookup is the loader's, no call is made. An unlisted directory is checked for the one name, if
   there are few of them and an answer follows. If the answer is not certain the lookup is left to the
   loader, so that no answer differs from the search's. */
#include "library_path.h"
#include "condition.h"
#include "log.h"
#include "process.h"
#include "system.h"
#include "table.h"
#include "tree.h"

/* More than the kernel takes for the arguments of any program (bprm_stack_limits of Linux
   fs/exec.c: three quarters of 8 MB). */
#define LINE_SIZE (8u << 20)
/* More unlisted directories than these are not looked at. */
#define MOST_LOOKS 16u

enum kind
{
  UNSEEN = 0,
  /* In the table; HOLDS: checked in this batch. */
  LISTED,
  HOLDS,
  /* Not in the table, or changed since. */
  UNLISTED,
  /* Those that were looked at: it does not exist, or has no hwcaps subdirectories; PACKED: the program is told
     what is in it. */
  ABSENT,
  PLAIN,
  PACKED,
  UNKNOWN,
};

struct element
{
  const char *path;
  const struct table_directory *directory;
  uint32_t length;
  unsigned char kind;
};

static struct element *elements STATE = NULL;
static unsigned element_count STATE = 0;
static enum { EMPTY, READ, UNREADABLE } state STATE = EMPTY;
static char candidate[4096] BUFFER = { 0 };
/* Lookups in unlisted directories that were of use, and those that the loader had to repeat. */
static unsigned won STATE = 0, lost STATE = 0;

/* First path components of every hwcaps subdirectory a loader from 2.31 on may try. */
static const char hwcaps_names[] = "glibc-hwcaps\0tls\0"
#if defined __x86_64__
    "x86_64\0avx512_1\0haswell\0xeon_phi\0"
#elif defined __i386__
    "sse2\0i386\0i486\0i586\0i686\0haswell\0xeon_phi\0"
#elif defined __aarch64__
    "atomics\0aarch64\0"
#elif defined __arm__
    "vfp\0neon\0v5l\0v6l\0v7l\0v8l\0"
#elif defined __powerpc64__
    "dfp\0altivec\0power7\0power8\0power9\0power10\0power11\0"
#elif defined __s390x__
    "zarch\0ldisp\0eimm\0dfp\0vx\0vxe\0vxe2\0z900\0z990\0z9-109\0z10\0z196\0zEC12\0z13\0z14\0"
    "z15\0z16\0z17\0"
#endif
    ;

static int
separates (char c)
{
  return c == ':' || c == ';';
}

static void
add_element (const char *path, size_t length)
{
  length = without_slashes (path, length);
  /* A relative path depends on the current directory, and tokens on the process: leave both to
     the loader. */
  int is_known = length > 0 && path[0] == '/';
  for (size_t i = 0; i < length; i++)
    is_known &= path[i] != '$';
  elements[element_count++]
      = (struct element) { path, NULL, (uint32_t) length, is_known ? UNSEEN : UNKNOWN };
}

static int
split (const char *value)
{
  size_t length = strlen (value), count = 1;
  for (size_t i = 0; i < length; i++)
    count += (size_t) separates (value[i]);
  /* Of the text a copy: a program may write over its environment (setproctitle and its like). */
  elements = sys_allocate (count * sizeof *elements + length + 1);
  if (elements == NULL)
    return 0;
  char *text = (char *) (elements + count);
  memcpy (text, value, length + 1);
  for (size_t start = 0, i = 0; i <= length; i++)
    if (i == length || separates (text[i]))
      {
        add_element (text + start, i - start);
        start = i + 1;
      }
  return 1;
}

/* Reads the options of a loader that was started as a command. They are no longer on the stack
   (2.36 moves the arguments up over them), so they are read from the kernel. *VALUE becomes NULL
   if --library-path is not among them. */
static int
parse_options (char *line, const char **value)
{
  const long length = sys_read_file ("/proc/self/cmdline", line, LINE_SIZE);
  *value = NULL;
  if (length <= 0 || length == LINE_SIZE)
    return 0;
  const char *end = line + length;
  line[length] = '\0';
  for (const char *at = line + strlen (line) + 1; at < end && at[0] == '-';)
    {
      const char *argument = at + strlen (at) + 1;
      if (argument >= end)
        return 0;
      if (text_equal (at, "--library-path"))
        *value = argument;
      else if (!text_equal (at, "--argv0") && !text_equal (at, "--audit")
               && !text_equal (at, "--preload"))
        return 0;
      at = argument + strlen (argument) + 1;
    }
  return 1;
}

/* Splits the path that a loader started as a command searches: that of its option, else VALUE. */
static int
split_direct (const char *value)
{
  char *line = sys_allocate (LINE_SIZE);
  const char *option;
  if (line == NULL)
    return 0;
  int is_read = parse_options (line, &option);
  if (option != NULL)
    value = *option != '\0' ? option : NULL;
  if (is_read && value != NULL)
    is_read = split (value);
  sys_unmap (line, LINE_SIZE);
  return is_read;
}

void
library_path_init (void)
{
  const char *value = process.library_path;
  if (!library_path_is_set ())
    return;
  int is_read = process.is_direct ? split_direct (value) : split (value);
  state = !is_read ? UNREADABLE : element_count > 0 ? READ : EMPTY;
  if (!is_read)
    log_line ("given-up", NULL, "LD_LIBRARY_PATH", NULL);
}

int
library_path_is_set (void)
{
  return process.library_path != NULL || process.is_direct;
}

int
library_path_is_readable (void)
{
  return state != UNREADABLE;
}

/* A directory that did not exist, or had no hwcaps subdirectories, stays so for the loader as
   well: it checks either once a process (open_path of glibc elf/dl-load.c). */
void
library_path_forget (void)
{
  for (unsigned i = 0; state == READ && i < element_count; i++)
    if (elements[i].kind == HOLDS || (elements[i].kind == UNLISTED && elements[i].directory))
      elements[i].kind = LISTED;
}

/* Writes PATH/NAME to the buffer; returns 0 if it does not fit. */
static int
compose (const struct element *e, const char *name)
{
  return join_path (candidate, sizeof candidate, e->path, e->length, name);
}

/* Looks for a name in a directory, with IN_PACK by what the program is told. */
static long
look_for (const struct element *e, const char *name, int in_pack, struct statx *found)
{
  if (!compose (e, name))
    return -1;
  if (!HAS_PATHS || !in_pack)
    return sys_stat (candidate, found);
  const enum tree_answer answer = tree_stat (candidate, 1, found);
  return answer == TREE_FOUND ? 0 : answer == TREE_ABSENT ? ENOENT_NEG : -1;
}

/* Looks at a directory that does not have the name. */
static enum kind
look_at (const struct element *e, int in_pack)
{
  struct statx found;
  long result = look_for (e, "", in_pack, &found);
  if (result != 0)
    return result == ENOENT_NEG ? ABSENT : UNKNOWN;
  for (const char *name = hwcaps_names; *name != '\0'; name += strlen (name) + 1)
    if (look_for (e, name, in_pack, &found) != ENOENT_NEG)
      return UNKNOWN;
  return PLAIN;
}

/* Finds the first element that has the name by the table alone; *END is the number of elements if
   none has it. Returns 0 if the lookup is the loader's. */
static int
find_listed (const char *name, int may_look, unsigned *end)
{
  struct statx found;
  unsigned looks = 0;
  for (unsigned i = 0; i < element_count; i++)
    {
      struct element *e = &elements[i];
      if (e->kind == UNSEEN)
        {
          e->directory = table_ready () ? table_find_directory (e->path, e->length) : NULL;
          /* All of it, without hwcaps subdirectories. */
          const int is_packed = HAS_PATHS && tree_is_told () && look_at (e, 1) == PLAIN;
          e->kind = is_packed ? PACKED : e->directory != NULL ? LISTED : UNLISTED;
        }
      if (e->kind == LISTED || e->kind == HOLDS)
        {
          int has = table_has_name (&e->directory->names, name);
          *end = i;
          if (has != 0)
            return has == 2;
        }
      else if (HAS_PATHS && e->kind == PACKED)
        {
          *end = i;
          if (look_for (e, name, 1, &found) != ENOENT_NEG)
            return tree_place (candidate) != candidate;
        }
      else if (e->kind == UNKNOWN
               || (e->kind != ABSENT && (!may_look || lost > won || ++looks > MOST_LOOKS)))
        return 0;
    }
  *end = element_count;
  return 1;
}

/* Checks that the elements up to END are as they were listed, or do not have the name. If the program is told of a
   pack, the loader need not look where the tree was: END becomes an unlisted one that has the name. */
static int
check_listed (unsigned *end, const char *name, int *has_looked)
{
  unsigned count = *end < element_count ? *end + 1 : element_count;
  for (unsigned i = 0; i < count; i++)
    {
      struct element *e = &elements[i];
      if (e->kind == LISTED)
        e->kind = condition_holds (e->directory->condition) ? HOLDS : UNLISTED;
      else if (e->kind == UNLISTED || e->kind == PLAIN)
        {
          struct statx found;
          *has_looked = 1;
          long result = look_for (e, name, 0, &found);
          if (HAS_PATHS && result == 0 && tree_is_told () && look_at (e, 0) == PLAIN)
            *end = count = i;
          else if (result != ENOENT_NEG)
            return 0;
          continue;
        }
      if (e->kind == UNLISTED)
        return 0;
    }
  for (unsigned i = 0; i < count; i++)
    {
      if (elements[i].kind == UNLISTED)
        elements[i].kind = (unsigned char) look_at (&elements[i], 0);
      if (elements[i].kind == UNKNOWN)
        return 0;
    }
  return 1;
}

enum lookup
library_path_ask (const char *name, int may_look, const char **path)
{
  struct statx found;
  unsigned end;
  int has_looked = 0;
  if (state != READ)
    return state == EMPTY ? LOOKUP_NOTHING : LOOKUP_UNKNOWN;
  if (!find_listed (name, may_look, &end))
    return LOOKUP_UNKNOWN;
  int holds = check_listed (&end, name, &has_looked);
  won += (unsigned) (holds && has_looked);
  lost += (unsigned) (!holds && has_looked);
  if (!holds || end == element_count)
    return holds ? LOOKUP_NOTHING : LOOKUP_UNKNOWN;
  if (HAS_PATHS && elements[end].kind == PACKED)
    {
      compose (&elements[end], name);
      *path = tree_place (candidate);
      return LOOKUP_FOUND;
    }
  const int is_listed = elements[end].kind == HOLDS && !conditions_used_listing;
  /* A mode may change without the directory's fingerprint. */
  if (look_for (&elements[end], name, 0, &found) != 0 || !statx_is_for_all (&found)
      || (!is_listed && !file_fits (candidate)))
    return LOOKUP_UNKNOWN;
  *path = candidate;
  return LOOKUP_FOUND;
}
