/* Starts becalm beside a start that waits for the disk: it requests the recorded pages of the program,
   or records them (crates/lib/src/ahead/begin.rs).

   A warm start costs a few calls of getrusage. The process is started in the middle of a cold start:
   the pages before that have been read one by one. It is not a child of the program, has no descriptor
   of it, and no variable that changes its own start. Whatever fails, the start goes on. */
#include "ahead.h"
#include "filter.h"
#include "process.h"
#include "system.h"

#ifdef NR_getrusage

/* What a cold start does: waits for pages, or reads sectors of 512 bytes. */
# define FEW_WAITS 3
# define FEW_SECTORS 512

/* struct rusage of Linux include/uapi/linux/resource.h, in words. */
enum
{
  WAITS = 9,
  SECTORS = 11,
  WORDS = 18
};

static unsigned objects STATE = 0;
static unsigned char is_done STATE = 0;

/* True if an orphan would become the program's child. */
static int
adopts_orphans (void)
{
  int is_subreaper = 0;
  const long get_child_subreaper = 37;
  return sys_getpid () == 1
         || system_call (NR_prctl, get_child_subreaper, (long) &is_subreaper, 0, 0, 0) != 0
         || is_subreaper;
}

/* Becomes becalm; returns if that fails. */
static void
become (const char *helper, long pid)
{
  const int read_write = 2;
  char number[DIGITS_SIZE];
  const char *arguments[] = { helper, "run",  "--attend", digits_of ((unsigned long) pid, number),
                              "--",   process.executable, NULL };
  if (pid == 0)
    arguments[2] = "--make-pages", arguments[3] = process.pages;
  size_t count = 0, kept = 0;
  while (process.environment[count] != NULL)
    count++;
  const char **variables = sys_allocate ((count + 1) * sizeof *variables);
  if (variables == NULL
      /* Readers of a pipe, and others that wait for a lock, must not wait for this process. */
      || system_call (NR_close_range, 0, 0xffffffffL, 0, 0, 0) != 0)
    return;
  for (int fd = 0; fd < 3; fd++)
    sys_open ("/dev/null", read_write, 0);
  for (size_t i = 0; i < count; i++)
    {
      const char *variable = process.environment[i];
      /* They change how becalm starts. */
      if (text_after (variable, "LD_") == NULL && value_of (variable, "BECALM") == NULL
          && value_of (variable, "GLIBC_TUNABLES") == NULL)
        variables[kept++] = variable;
    }
  system_call (NR_execve, (long) helper, (long) arguments, (long) variables, 0, 0);
}

/* Starts becalm for a process, or for its pages if the number is 0. No signal is sent when the process
   between the two ends, so that only this function waits for it. */
static void
start (const char *helper, long pid)
{
  const long all = 0x40000000;
  const long between = system_call (NR_clone, 0, 0, 0, 0, 0);
  if (between > 0)
    system_call (NR_wait4, between, 0, all, 0, 0);
  if (between != 0)
    return;
  if (system_call (NR_clone, 0, 0, 0, 0, 0) == 0)
    become (helper, pid);
  sys_exit (0);
}

void
ahead_look (void)
{
  const char *helper = process.helper;
  /* A look at the first, second, fourth, ... object is enough. */
  const unsigned count = ++objects;
  if (helper == NULL || is_done || (count & (count - 1)) != 0 || process.learner != NULL)
    return;
  long usage[WORDS] = { 0 };
  const long self = 0;
  is_done = process.executable == NULL || process_is_filtered ();
  if (is_done || system_call (NR_getrusage, self, (long) usage, 0, 0, 0) != 0
      || (usage[WAITS] < FEW_WAITS && usage[SECTORS] < FEW_SECTORS))
    return;
  is_done = 1;
  if (!adopts_orphans ())
    start (helper, sys_getpid ());
}

void
ahead_make_pages (void)
{
  const char *helper = process.helper;
  if (helper != NULL && process.executable != NULL && !process_is_filtered () && !adopts_orphans ())
    start (helper, 0);
}

#else

void ahead_look (void) {}
void ahead_make_pages (void) {}

#endif
