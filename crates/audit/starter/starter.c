/* Starts a program by becalm's index, or plainly.

   `becalm on` makes a folder of links, all of which lead to this file, and puts it at the front of
   PATH. The starter is called by the name of a program. It finds that program as the shell would
   behind the folder, adds the index to its environment if the program is the one that was indexed,
   and executes it. Whatever is unexpected leads to the plain start.

   It has no C library: the start of one takes longer than all of its own work. */
#include "hash.h"
#include "starts.h"
#include "variables.h"

#if defined __x86_64__
__asm__ (".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n"
         "\tcall starter\n");
#elif defined __aarch64__
__asm__ (".globl _start\n_start:\n\tmov x29, #0\n\tmov x30, #0\n\tmov x0, sp\n\tbl starter\n");
#else
# error "no entry point for this machine"
#endif

#define ENOEXEC_NEG (-8)
/* A longer file of counts does not grow. */
#define LARGEST (1u << 24)
#define LINK_TARGET "../becalm-starter"

/* The search for the program. */
struct search
{
  const struct process *process;
  /* The file of this starter, as device and inode. */
  struct statx own;
  const char *name;
  /* The path of the program when it was switched on; NULL if it is unknown. */
  const char *known;
  /* The start by the index; NULL if there is none. */
  const struct start *start;
  const struct variables *variables;
  struct additions additions;
  /* A file was there, and could not be executed. */
  int is_refused;
};

static int
is_same (const struct statx *a, const struct statx *b)
{
  return a->ino == b->ino && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

/* True for a link to a starter: this one under another name, or that of another folder. */
static int
is_starter (const char *path)
{
  char target[sizeof LINK_TARGET];
  long length = sys_readlink (path, target, sizeof target);
  return length == sizeof target - 1 && memcmp (target, LINK_TARGET, sizeof target - 1) == 0;
}

/* Executes a program. Returns if that fails. A program may look for itself by the name that it was
   started with, along PATH too, and would find the link: it gets its path. */
static void
start (struct search *search, const char *path, const struct statx *found)
{
  char **arguments = search->process->arguments, **environment = search->process->environment;
  if (arguments[0] != NULL && text_equal (file_name (arguments[0]), search->name))
    arguments[0] = (char *) path;
  if (search->start != NULL && identity_is (&search->start->program, found))
    {
      const struct variables *variables = search->variables;
      char *pointers[variables->count + 4];
      char text[variables_size (environment, variables, &search->additions)];
      variables_add (environment, variables, &search->additions, pointers, text);
      execute (path, arguments, pointers);
    }
  if (execute (path, arguments, environment) != ENOEXEC_NEG)
    {
      search->is_refused = 1;
      return;
    }
  /* A script without a first line, which a shell executes itself. */
  const size_t count = search->process->argument_count;
  char *with_shell[count + 3];
  with_shell[0] = (char *) "sh";
  with_shell[1] = (char *) path;
  for (size_t i = 1; i <= count; i++)
    with_shell[i + 1] = arguments[i];
  if (count == 0)
    with_shell[2] = NULL;
  execute ("/bin/sh", with_shell, environment);
  search->is_refused = 1;
}

/* Starts the first program of PATH that is no starter; with BEHIND, only those behind the folder that
   the starter was found in. Returns if there is none. */
static void
walk (struct search *search, const char *list, int behind)
{
  char path[PATH_SIZE];
  struct statx found;
  int has_passed = !behind;
  while (list != NULL)
    if (join_next (path, &list, search->name) && sys_stat (path, &found) == 0
        && (found.mode & 0170000) == 0100000 && (found.mode & 0111) != 0)
      {
        if (is_same (&found, &search->own))
          has_passed = 1;
        else if (has_passed && !is_starter (path))
          start (search, path, &found);
      }
}

/* True if no limit of the length of files can end this process (SIGXFSZ). */
static int
may_write (void)
{
  const long file_size = 1;
  uint64_t limits[2];
  return system_call (NR_prlimit64, 0, file_size, 0, (long) limits, 0) == 0
         && limits[0] == UINT64_MAX;
}

/* Adds a byte to the file FOLDER/NAME.starts, if it is one of USER's that crates/lib/src/on/counts.rs has
   made. Whatever fails, the start goes on. */
static void
count_start (const char *folder, const char *name, uint32_t user)
{
  /* O_NOFOLLOW, by its numbers of x86-64 and AArch64. */
#if defined __x86_64__
  const int no_link = 0400000;
#else
  const int no_link = 0100000;
#endif
  const int write_append_nonblocking = 01 | 02000 | 04000;
  char path[PATH_SIZE];
  if (folder[0] != '/' || !concatenate (path, sizeof path, folder, "/", name, ".starts", NULL))
    return;
  /* execve closes the descriptor. */
  struct statx found;
  const long fd = sys_open (path, write_append_nonblocking | CLOSE_ON_EXEC | no_link, 0);
  /* A file that becalm has made, and that nobody else can write. */
  if (fd >= 0 && sys_stat_open ((int) fd, &found) == 0 && found.mode == 0100600 && found.uid == user
      && found.size < LARGEST && may_write ())
    sys_write ((int) fd, "+", 1);
}

/* The file of starts is checked before anything of it is read. */
static int
is_whole (const struct starts *starts, size_t size)
{
  const char *bytes = (const char *) starts;
  const size_t unchecked = offsetof (struct starts, index);
  if (memcmp (starts->magic, STARTS_MAGIC, sizeof starts->magic) != 0 || starts->length != size
      || bytes[size - 1] != '\0'
      || starts->helper >= size || starts->pages >= size || starts->counts >= size
      || starts->count > (size - sizeof *starts) / sizeof *starts->start)
    return 0;
  for (uint32_t i = 0; i < starts->count; i++)
    if (starts->start[i].name >= size || starts->start[i].path >= size)
      return 0;
  return hash_bytes (STARTS_SEED, bytes + unchecked, size - unchecked) == starts->check;
}

/* Maps the file of starts if it is whole; else returns NULL. */
static const struct starts *
starts_open (const char *path, uint32_t user)
{
  const struct starts *starts = NULL;
  size_t size = 0;
  /* execve closes the descriptor. */
  const long fd = open_own (path, user, &size);
  if (fd >= 0 && size >= sizeof *starts && size <= STARTS_LARGEST)
    starts = (const struct starts *) sys_map ((int) fd, size);
  return starts != NULL && is_whole (starts, size) ? starts : NULL;
}

/* Returns the start with this name, NULL if there is none. */
static const struct start *
starts_find (const struct starts *starts, const char *name)
{
  for (uint32_t i = 0; i < starts->count; i++)
    if (text_equal ((const char *) starts + starts->start[i].name, name))
      return starts->start + i;
  return NULL;
}

/* Finds a name in the file beside the starter. PATH is the starter's own path, which becomes that of
   the module. */
static void
find_start (struct search *search, char *path, struct variables *variables)
{
  static const char table[] = "starts", module[] = "index.so";
  char *name = (char *) file_name (path);
  const struct process *process = search->process;
  struct statx index;
  memcpy (name, table, sizeof table);
  const struct starts *starts = starts_open (path, process->user);
  const struct start *found = starts != NULL ? starts_find (starts, search->name) : NULL;
  if (found == NULL)
    return;
  search->known = (const char *) starts + found->path;
  if (!process->is_secure)
    count_start ((const char *) starts + starts->counts, search->name, process->user);
  memcpy (name, module, sizeof module);
  if (process->is_secure || !variables_read (process->environment, variables)
      || has_byte (path, ':') || has_byte (path, '$') || sys_stat (path, &index) != 0
      || !identity_is (&starts->index, &index))
    return;
  search->start = found;
  search->variables = variables;
  search->additions = (struct additions) { .module = path,
                                           .helper = (const char *) starts + starts->helper,
                                           .pages = found->shares_pages
                                                        ? (const char *) starts + starts->pages
                                                        : "",
                                           .static_tls = found->static_tls };
}

/* Starts the program with this name. Returns if there is none. OWN is the starter's path, empty if it
   is unknown. */
static void
start_named (struct search *search, const char *name, char *own)
{
  struct variables variables;
  struct statx found;
  search->name = name;
  search->known = NULL;
  search->start = NULL;
  if (own[0] != '\0')
    find_start (search, own, &variables);
  const char *list = value_in (search->process->environment, "PATH");
  if (list == NULL)
    list = "/bin:/usr/bin";
  walk (search, list, 1);
  walk (search, list, 0);
  if (search->known != NULL && sys_stat (search->known, &found) == 0
      && !is_same (&found, &search->own))
    start (search, search->known, &found);
}

static void
say (const char *what)
{
  sys_write (2, what, strlen (what));
}

__attribute__ ((noreturn, used)) void
starter (void **stack)
{
  struct process process;
  struct search search = { 0 };
  struct statx executed;
  /* With room for the names of the files beside it. */
  char own[PATH_SIZE + 16];
  read_process (stack, &process);
  search.process = &process;
  long length = sys_readlink ("/proc/self/exe", own, PATH_SIZE);
  own[length > 0 && length < (long) PATH_SIZE ? length : 0] = '\0';
  if (sys_stat (process.executed, &executed) != 0)
    memset (&executed, 0, sizeof executed);
  if (own[0] != '/' || sys_stat (own, &search.own) != 0)
    {
      /* Without /proc it is the file that was executed. */
      own[0] = '\0';
      search.own = executed;
    }
  /* If the starter is named in the first line of a script, the script was executed, and the starter is
     the first argument. A descriptor has no name either. */
  if (is_same (&executed, &search.own))
    start_named (&search, file_name (process.executed), own);
  if (process.arguments[0] != NULL)
    start_named (&search, file_name (process.arguments[0]), own);
  say ("becalm: ");
  say (process.arguments[0] != NULL ? process.arguments[0] : process.executed);
  say (search.is_refused ? ": cannot be executed\n" : ": command not found\n");
  for (;;)
    sys_exit (search.is_refused ? 126 : 127);
}
