/* Starts becalm beside a start that waits for the disk: it requests the recorded pages of the program,
   or records them (crates/lib/src/ahead/begin.rs).

   A warm start costs a few calls of getrusage. The process is started in the middle of a cold start:
   the pages before that have been read one by one. It is not a child of the program, has no descriptor
   of it, and no variable that changes its own start. Whatever fails, the start goes on. */
#include "ahead.h"
#include "process.h"
#include "socket.h"
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

/* Makes the kernel enter touched pages alone in the page tables of the libraries: it leaves
   fault-around out for mappings that a userfaultfd for writes has registered
   (uffd_disable_fault_around of Linux include/linux/userfaultfd_k.h). No page is ever protected, so
   no fault waits for anybody.

   The descriptor is sent to the process that learns (crates/host/src/pages/fault_around.rs), over a
   socket with the abstract name of the switch, before the program begins. When that process closes
   it, the mappings are ordinary ones again. Whatever fails, the start goes on.

   Whoever has the descriptor can change the memory of this process, and any user can take a name that
   is free again. So it is sent only to a socket of this user, which the process has made whose
   number is in the name. */

/* Linux include/uapi/linux/userfaultfd.h. */
# define USER_MODE_ONLY 1
# define API 0xaa
# define API_CALL 0xc018aa3fL
# define REGISTER_CALL 0xc020aa00L
# define FEATURE_WP_ASYNC (1ull << 15)
# define MODE_WRITE_PROTECT 2u
# define PAGE_MASK 4095u

struct api
{
  uint64_t version, features, calls;
};

struct range
{
  uint64_t start, length, mode, calls;
};

/* The descriptor plus one; 0 if nothing is learned. */
static int faults STATE = 0;
static unsigned char is_learned STATE = 0;
/* Objects that are open. */
static unsigned open_objects STATE = 0;

static void
end (void)
{
  if (faults != 0)
    sys_close (faults - 1);
  faults = 0;
}

/* Connects to the process that learns; negative if it is not there. */
static long
connect_to_learner (void)
{
  const char *name = process.learner, *number = name;
  int32_t pid;
  long fd = socket_connect (name, SOCKET_STREAM, &pid);
  if (fd < 0)
    return fd;
  /* It is after the first hyphen. */
  number += length_to (number, '-');
  number += *number == '-';
  if (pid != (int32_t) read_decimal (&number))
    {
      sys_close ((int) fd);
      return -1;
    }
  return fd;
}

/* Sends a byte to the process that learns, with a descriptor if there is one. Returns the connection,
   negative if that fails. */
static long
tell (int descriptor)
{
  const char byte = 0;
  long fd = connect_to_learner ();
  if (fd >= 0 && !socket_send ((int) fd, &byte, sizeof byte, descriptor))
    {
      sys_close ((int) fd);
      return -1;
    }
  return fd;
}

void
learn_init (void)
{
  /* Child processes inherit the switch, and may run longer than the process that learns. */
  long fd = connect_to_learner ();
  if (fd < 0)
    return;
  sys_close ((int) fd);
  fd = system_call (NR_userfaultfd, CLOSE_ON_EXEC | NONBLOCK | USER_MODE_ONLY, 0, 0, 0, 0);
  if (fd < 0)
    return;
  faults = (int) fd + 1;
  struct api api = { API, FEATURE_WP_ASYNC, 0 };
  if (system_call (NR_ioctl, fd, API_CALL, (long) &api, 0, 0) != 0)
    end ();
}

void
learn_open (const struct link_map *map, int is_program)
{
  open_objects++;
  if (faults == 0 || process_is_vdso (map))
    return;
  struct headers headers = headers_of (map, is_program);
  for (unsigned i = 0; i < headers.count; i++)
    {
      const elf_phdr *segment = &headers.first[i];
      const elf_word from = (map->addr + segment->vaddr) & ~(elf_word) PAGE_MASK;
      const elf_word to = (map->addr + segment->vaddr + segment->filesz + PAGE_MASK) & ~(elf_word) PAGE_MASK;
      struct range range = { from, to - from, MODE_WRITE_PROTECT, 0 };
      if (segment->type == PT_LOAD)
        system_call (NR_ioctl, faults - 1, REGISTER_CALL, (long) &range, 0, 0);
    }
}

void
learn_finish (void)
{
  if (faults == 0)
    return;
  long fd = tell (faults - 1);
  if (fd >= 0)
    sys_close ((int) fd);
  is_learned = fd >= 0;
  end ();
}

void
learn_close (int has_ended)
{
  /* The C library and the loader are closed last. */
  const unsigned last = 2;
  open_objects--;
  if (!is_learned || !has_ended || open_objects > last)
    return;
  is_learned = 0;
  long fd = tell (-1);
  if (fd < 0)
    return;
  const int patience = 250;
  socket_wait ((int) fd, patience);
  sys_close ((int) fd);
}

#else

void ahead_look (void) {}
void ahead_make_pages (void) {}
void learn_init (void) {}
void learn_open (const struct link_map *map, int is_program) { (void) map; (void) is_program; }
void learn_finish (void) {}
void learn_close (int has_ended) { (void) has_ended; }

#endif
