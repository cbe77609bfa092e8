/* LD_LIBRARY_PATH without its misses: a directory whose snapshot still holds says by itself
   which names it has; one that is not there costs one look; any other is asked for the one
   name, where it has no hwcaps subdirectories. What cannot be told leaves the question to the
   loader, so that no answer differs from the search's. */
#include "library_path.h"
#include "guard.h"
#include "process.h"
#include "system.h"
#include "table.h"

#define MAX_ELEMENTS 256u
#define MAX_TEXT 16384u
#define PATH_SIZE 4096u

enum kind
{
  UNSEEN = 0,
  ABSENT,
  SNAPSHOT,
  ASKED,
  UNKNOWN,
};

struct element
{
  const char *path;
  const struct table_directory *directory;
  uint16_t length;
  unsigned char kind;
};

static struct element elements[MAX_ELEMENTS] BUFFER = { 0 };
static unsigned element_count STATE = 0;
static enum { EMPTY, READ, UNREADABLE } state STATE = EMPTY;
/* A copy: a program may write over its environment (setproctitle and its like). */
static char text[MAX_TEXT] BUFFER = { 0 };
static char candidate[PATH_SIZE] BUFFER = { 0 };

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
  struct element *e = &elements[element_count++];
  while (length > 1 && path[length - 1] == '/')
    length--;
  e->path = path;
  e->directory = NULL;
  e->length = (uint16_t) length;
  e->kind = UNSEEN;
  /* Relative to a current directory that may change, or with tokens: the loader's. */
  if (length == 0 || path[0] != '/')
    e->kind = UNKNOWN;
  for (size_t i = 0; i < length; i++)
    if (path[i] == '$')
      e->kind = UNKNOWN;
}

static int
split (const char *value)
{
  size_t length = strlen (value);
  if (length >= MAX_TEXT)
    return 0;
  memcpy (text, value, length + 1);
  for (size_t start = 0, i = 0; i <= length; i++)
    if (i == length || separates (text[i]))
      {
        if (element_count == MAX_ELEMENTS)
          return 0;
        add_element (text + start, i - start);
        start = i + 1;
      }
  return 1;
}

/* The options of a loader that was started itself; they are gone from the stack (2.36 moves
   the arguments up over them), so the kernel is asked. *VALUE becomes NULL where
   --library-path is not among them. */
static int
direct_library_path (const char **value)
{
  static char line[PATH_SIZE] BUFFER = { 0 };
  int fd = (int) sys_open ("/proc/self/cmdline", 0, 0);
  if (fd < 0)
    return 0;
  long length = sys_read (fd, line, sizeof line - 1);
  sys_close (fd);
  if (length <= 0 || (size_t) length >= sizeof line - 1)
    return 0;
  *value = NULL;
  const char *end = line + length;
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

void
library_path_init (void)
{
  const char *value = process_library_path (), *option;
  if (!library_path_is_set ())
    return;
  state = UNREADABLE;
  if (process_is_direct ())
    {
      if (!direct_library_path (&option))
        return;
      if (option != NULL)
        value = *option != '\0' ? option : NULL;
    }
  if (value == NULL)
    state = EMPTY;
  else if (split (value))
    state = READ;
}

int
library_path_is_set (void)
{
  return process_library_path () != NULL || process_is_direct ();
}

int
library_path_is_readable (void)
{
  return state != UNREADABLE;
}

/* What was not there, or has no hwcaps subdirectories, stays so for the loader as well: it
   looks for either once a process. */
void
library_path_forget (void)
{
  for (unsigned i = 0; state == READ && i < element_count; i++)
    if (elements[i].kind == SNAPSHOT)
      elements[i].kind = UNSEEN;
}

/* PATH/NAME in the buffer; 0 where it does not fit. */
static int
compose (const struct element *e, const char *name)
{
  size_t length = e->length == 1 ? 0 : e->length, more = strlen (name) + 1;
  if (length + 1 + more > PATH_SIZE)
    return 0;
  memcpy (candidate, e->path, length);
  candidate[length] = '/';
  memcpy (candidate + length + 1, name, more);
  return 1;
}

static long
look_for (const struct element *e, const char *name)
{
  struct statx found;
  return compose (e, name) ? sys_statx (candidate, &found) : -1;
}

/* A mode may change without the directory's stamp; the path then lies in the buffer. */
static int
is_for_all (const struct element *e, const char *name)
{
  struct statx found;
  return compose (e, name) && sys_statx (candidate, &found) == 0 && statx_is_for_all (&found);
}

static enum kind
look_at (struct element *e)
{
  const struct table_directory *known
      = table_ready () ? table_find_directory (e->path, e->length) : NULL;
  if (known != NULL && guard_holds (known->guard))
    {
      e->directory = known;
      return SNAPSHOT;
    }
  long result = look_for (e, "");
  if (result != 0)
    return result == ENOENT_NEG ? ABSENT : UNKNOWN;
  for (const char *name = hwcaps_names; *name != '\0'; name += strlen (name) + 1)
    if (look_for (e, name) != ENOENT_NEG)
      return UNKNOWN;
  return ASKED;
}

static enum library_path_answer
ask_element (struct element *e, const char *name)
{
  if (e->kind == UNSEEN)
    e->kind = (unsigned char) look_at (e);
  switch (e->kind)
    {
    case ABSENT:
      return LIBRARY_PATH_NOTHING;
    case ASKED:
      return look_for (e, name) == ENOENT_NEG ? LIBRARY_PATH_NOTHING : LIBRARY_PATH_UNKNOWN;
    case SNAPSHOT:
      switch (table_directory_has (e->directory, name))
        {
        case 0:
          return LIBRARY_PATH_NOTHING;
        case 2:
          return is_for_all (e, name) ? LIBRARY_PATH_FOUND : LIBRARY_PATH_UNKNOWN;
        }
      return LIBRARY_PATH_UNKNOWN;
    }
  return LIBRARY_PATH_UNKNOWN;
}

enum library_path_answer
library_path_ask (const char *name, const char **path)
{
  if (state != READ)
    return state == EMPTY ? LIBRARY_PATH_NOTHING : LIBRARY_PATH_UNKNOWN;
  for (unsigned i = 0; i < element_count; i++)
    {
      enum library_path_answer answer = ask_element (&elements[i], name);
      if (answer == LIBRARY_PATH_FOUND)
        *path = candidate;
      if (answer != LIBRARY_PATH_NOTHING)
        return answer;
    }
  return LIBRARY_PATH_NOTHING;
}
