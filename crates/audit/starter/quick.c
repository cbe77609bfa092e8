/* The beginning of becalm: `becalm run PROGRAM` without options, if an earlier start has left its decision
   beside the program's index and all that it rested on still holds. Executes the program then. Else it
   returns, and becalm starts as ever.

   It runs before the C library, whose start takes longer than all of this, and before relocation: no
   pointer may be in its data. */

/* The compiler may call these by itself; those of the C library cannot be called yet. */
#define memcpy quick_memcpy
#define memset quick_memset
#define memcmp quick_memcmp
#define strlen quick_strlen
#pragma GCC visibility push(hidden)
#include "../module/memory.c"
#include "../module/hash.c"
__asm__ (".set memcpy, quick_memcpy\n.set memset, quick_memset\n"
         ".set memcmp, quick_memcmp\n.set strlen, quick_strlen\n");
#include "quick.h"

#if defined __x86_64__
__asm__ (".globl becalm_start\nbecalm_start:\n\tmov %rdx, %r12\n\tmov %rsp, %rbx\n\tmov %rsp, %rdi\n"
         "\tand $-16, %rsp\n\tcall becalm_quick\n\tmov %rbx, %rsp\n\tmov %r12, %rdx\n"
         "\txor %ebp, %ebp\n\tjmp _start\n");
#elif defined __aarch64__
__asm__ (".globl becalm_start\nbecalm_start:\n\tmov x19, x0\n\tmov x0, sp\n\tbl becalm_quick\n"
         "\tmov x0, x19\n\tmov x29, #0\n\tmov x30, #0\n\tb _start\n");
#else
# error "no entry point for this machine"
#endif

/* The arguments that may name a file on a network file system (crates/lib/src/trees/begin.rs). */
#define ARGUMENTS 4
#define EAGAIN_NEG (-11)

static int
is_same_file (const char *path, const struct identity *identity)
{
  struct statx found;
  return sys_stat (path, &found) == 0 && identity_is (identity, &found);
}

/* Set if a page was not in memory. Linux begins to read it then, so becalm would find it there. */
unsigned char becalm_found_cold;

/* True if a page of a file is in memory. Opens nothing but a regular file. */
static int
is_in_memory (const char *path, uint64_t offset)
{
  const long random = 1, nowait = 8;
  struct statx found;
  char byte;
  const struct { void *base; size_t size; } vector = { &byte, 1 };
  if (sys_stat (path, &found) != 0 || (found.mode & 0170000) != 0100000)
    return 0;
  const long fd = sys_open (path, CLOSE_ON_EXEC | NONBLOCK | 0400 /* O_NOCTTY */, 0);
  if (fd < 0)
    return 0;
  /* Otherwise the kernel would read the neighbours of a page that is not in memory. */
  system_call (NR_fadvise64, fd, 0, 0, random, 0);
  const long length = system_call_6 (NR_preadv2, fd, (long) &vector, 1, (long) offset, 0, nowait);
  sys_close ((int) fd);
  if (length == EAGAIN_NEG)
    becalm_found_cold = 1;
  return length == 1;
}

static int
quick_is_whole (const struct quick *quick, size_t size)
{
  const char *bytes = (const char *) quick;
  const size_t unchecked = offsetof (struct quick, becalm);
  if (size < sizeof *quick || quick->length != size || bytes[size - 1] != '\0'
      || memcmp (quick->magic, QUICK_MAGIC, sizeof quick->magic) != 0
      || quick->count > (size - sizeof *quick) / sizeof *quick->conditions)
    return 0;
  for (size_t i = 0; i < sizeof quick->texts / sizeof *quick->texts; i++)
    if (quick->texts[i] >= size)
      return 0;
  for (uint32_t i = 0; i < quick->count; i++)
    if (quick->conditions[i].text >= size)
      return 0;
  return hash_bytes (QUICK_SEED, bytes + unchecked, size - unchecked) == quick->check;
}

/* Reads the file of the command with this name, and checks its form; NULL if there is none. It is not mapped:
   somebody may shorten it. */
static const struct quick *
quick_open (char **environment, const char *name, uint32_t user)
{
  static _Alignas (struct quick) char file[QUICK_LARGEST];
  const struct quick *quick = (const struct quick *) file;
  char path[PATH_SIZE];
  size_t size = 0;
  const char *folder = value_in (environment, "XDG_CACHE_HOME"), *below = "";
  if (folder == NULL || folder[0] != '/')
    folder = value_in (environment, "HOME"), below = "/.cache";
  if (folder == NULL || folder[0] != '/'
      || !concatenate (path, sizeof path, folder, below, "/becalm/programs/", name, ".quick", NULL))
    return NULL;
  const long fd = open_own (path, user, &size);
  if (fd < 0)
    return NULL;
  const long length = sys_read ((int) fd, file, sizeof file);
  sys_close ((int) fd);
  return length >= 0 && (size_t) length == size && quick_is_whole (quick, size) ? quick : NULL;
}

/* True if the file at a path of this length, and the directory that it is in, are on no network file system:
   on the device of the program, or on a block device. */
static int
is_near (const struct quick *quick, const char *path, size_t length)
{
  char above[PATH_SIZE];
  struct statx found;
  for (int i = 0; i < 2 && length > 0 && length < PATH_SIZE; i++)
    {
      memcpy (above, path, length);
      above[length] = '\0';
      if (sys_stat (above, &found) == 0 && found.dev_major == 0
          && (found.dev_major != quick->major || found.dev_minor != quick->minor))
        return 0;
      while (length > 1 && above[length - 1] == '/')
        length--;
      while (length > 0 && above[length - 1] != '/')
        length--;
    }
  return 1;
}

/* True if a search for the command leads to the program. */
static int
is_found (const struct quick *quick, char **environment, const char *command)
{
  const char *program = (const char *) quick + quick->program_path;
  struct statx found;
  if (has_byte (command, '/'))
    return text_equal (command, program) && is_same_file (program, &quick->program);
  const char *list = value_in (environment, "PATH");
  while (list != NULL)
    {
      char path[PATH_SIZE];
      if (!join_next (path, &list, command))
        return 0;
      if (sys_stat (path, &found) == 0)
        return text_equal (path, program) && identity_is (&quick->program, &found);
    }
  return 0;
}

static int
holds (const struct quick *quick, const struct condition *condition, char **environment)
{
  const char *text = (const char *) quick + condition->text;
  const char *list;
  struct statx found;
  switch (condition->kind)
    {
    case QUICK_UNSET:
      return value_in (environment, text) == NULL;
    case QUICK_SET:
      while (*environment != NULL && !text_equal (*environment, text))
        environment++;
      return *environment != NULL;
    case QUICK_NEAR:
      list = value_in (environment, text);
      return list == NULL || is_near (quick, list, length_to (list, ':'));
    case QUICK_ABSENT:
      return sys_stat (text, &found) == ENOENT_NEG;
    case QUICK_OLDER:
      return sys_stat (text, &found) != 0 || found.mtime.sec < quick->since
             || (found.mtime.sec == quick->since && found.mtime.nsec <= condition->number);
    case QUICK_IN_MEMORY:
      return is_in_memory (text, condition->number);
    default:
      return 0;
    }
}

/* True if the start would be the same. ARGUMENTS begin with the command. */
static int
is_same_start (const struct quick *quick, char **arguments, char **environment, uint32_t user)
{
  struct { int64_t seconds, nanoseconds; } now;
  struct statx found;
  if (system_call (NR_clock_gettime, 0, (long) &now, 0, 0, 0) != 0 || now.seconds < quick->since
      || now.seconds >= quick->until || !is_found (quick, environment, arguments[0])
      || !is_same_file ("/proc/self/exe", &quick->becalm))
    return 0;
  for (size_t i = 0; i < sizeof quick->files / sizeof *quick->files; i++)
    if (sys_stat ((const char *) quick + quick->file_paths[i], &found) != 0
        || !identity_is (&quick->files[i], &found) || !is_own (&found, user))
      return 0;
  if (!is_near (quick, ".", 1))
    return 0;
  for (size_t i = 1; i <= ARGUMENTS && arguments[i] != NULL; i++)
    if (!is_near (quick, arguments[i], strlen (arguments[i])))
      return 0;
  for (uint32_t i = 0; i < quick->count; i++)
    if (!holds (quick, quick->conditions + i, environment))
      return 0;
  return 1;
}

/* Executes the program with its index. Returns if that is not the start that becalm would make. */
__attribute__ ((used)) void
becalm_quick (void **stack)
{
  struct process process;
  read_process (stack, &process);
  char **arguments = process.arguments, **environment = process.environment;
  if (process.argument_count < 3 || !text_equal (arguments[1], "run"))
    return;
  arguments += text_equal (arguments[2], "--") ? 3 : 2;
  if (arguments[0] == NULL || arguments[0][0] == '-' || process.is_secure)
    return;
  const struct quick *quick = quick_open (environment, file_name (arguments[0]), process.user);
  if (quick == NULL || !is_same_start (quick, arguments, environment, process.user))
    return;
  const size_t count = process.variable_count;
  char *with[count + 3];
  memcpy (with, environment, count * sizeof *with);
  with[count] = (char *) quick + quick->variables[0];
  with[count + 1] = (char *) quick + quick->variables[1];
  with[count + 2] = NULL;
  execute ((const char *) quick + quick->program_path, arguments, with);
}
