/* The stubs (docs/paths.md). If the table binds a slot to a function of libc.so.6 that is listed
   here, the slot leads to a stub. A stub saves the registers of the call, calls `stub_called`,
   and either returns to the caller or jumps to the function. While the function runs, the stack
   has no frame of this module, because no unwinder could unwind it.

   Cancellation happens in libc: with other threads, a call that may be a cancellation point and
   would fail is passed on with an empty path, which the kernel rejects in the same way before it
   looks anything up. */
#include "stubs.h"
#include "dynamic.h"
#include "log.h"
#include "paths.h"
#include "process.h"
#include "tree.h"

static const char *why_declined STATE = NULL;

#if HAS_PATHS

# if defined __x86_64__
#  include "stub/x86_64.h"
# else
#  include "stub/aarch64.h"
# endif

/* The effect of a call. */
enum does
{
  /* Not a function of the list. */
  NOTHING,
  /* Calls that use a path. */
  OPEN, KERNEL_OPEN_HOW, OPEN_FILE, OPEN_DIRECTORY, SCAN,
  STAT, LSTAT, STATX, ACCESS, READ_LINK, REAL_PATH, REAL_PATH_CHECKED, CANONICAL,
  /* Makes or removes the path. */
  WRITES, CREATES, MAKES_DIRECTORY, REOPEN,
  /* Tells about its file system. */
  STAT_FILE_SYSTEM,
  /* Moves the path to another one, which follows in the same form. */
  RENAMES,
  LAST_WITH_PATH = RENAMES,
  /* As WRITES, with the name in place of a template. */
  MAKES_TEMPORARY,
  FSTAT, BIND,
  SYSTEM_CALL,
  /* Changes what stat returns, or waits for a child, which may have done so. */
  FORGETS,
  /* Makes a child, or lets another program have the descriptors. */
  FORKS, EXECUTES,
  /* Changes a file by a descriptor, or the current directory; locks a file, or reads what a copy does not have. */
  CHANGES_FILE, USES_FILE, FILE_CONTROL,
  /* Changes the meaning of paths. */
  MOVES, CLONE, KERNEL_CLONE3, CONTROL,
  /* Changes what the process may look at. */
  IDENTITY,
};

/* With the effect: the position of the path, descriptor or flags that matter, from 0; AT if the argument before
   is the descriptor of the directory that a path is relative to; VERSION if the first argument is that of
   struct stat. */
#define EFFECT 0xffu
#define PATH(position) ((position) << 8)
#define RELATIVE (1u << 11)
#define AT(position) (PATH (position) | RELATIVE)
#define VERSION (1u << 12)

#define CALLS 176
#define TEXT(macro) TEXT_OF (macro)
#define TEXT_OF(token) #token
static const struct
{
  char name[23];
  uint16_t does;
} calls[] = {
  { "open", OPEN }, { "open64", OPEN }, { "__open_2", OPEN }, { "__open64_2", OPEN },
  { "openat", OPEN | AT (1) }, { "openat64", OPEN | AT (1) }, { "__openat_2", OPEN | AT (1) },
  { "__openat64_2", OPEN | AT (1) },
  { "fopen", OPEN_FILE }, { "fopen64", OPEN_FILE }, { "opendir", OPEN_DIRECTORY },
  { "scandir", SCAN }, { "scandir64", SCAN },
  { "stat", STAT }, { "stat64", STAT }, { "lstat", LSTAT }, { "lstat64", LSTAT },
  { "fstatat", STAT | AT (1) }, { "fstatat64", STAT | AT (1) },
  { "__xstat", STAT | PATH (1) | VERSION }, { "__xstat64", STAT | PATH (1) | VERSION },
  { "__lxstat", LSTAT | PATH (1) | VERSION }, { "__lxstat64", LSTAT | PATH (1) | VERSION },
  { "fstat", FSTAT }, { "fstat64", FSTAT }, { "__fxstat", FSTAT | PATH (1) | VERSION },
  { "__fxstat64", FSTAT | PATH (1) | VERSION },
  { "__fxstatat", STAT | AT (2) | VERSION }, { "__fxstatat64", STAT | AT (2) | VERSION },
  { "statx", STATX | AT (1) },
  { "access", ACCESS }, { "eaccess", ACCESS }, { "euidaccess", ACCESS },
  { "faccessat", ACCESS | AT (1) },
  { "readlink", READ_LINK }, { "__readlink_chk", READ_LINK }, { "readlinkat", READ_LINK | AT (1) },
  { "__readlinkat_chk", READ_LINK | AT (1) },
  { "realpath", REAL_PATH }, { "__realpath_chk", REAL_PATH_CHECKED },
  { "canonicalize_file_name", CANONICAL },
  { "syscall", SYSTEM_CALL },
  { "creat", CREATES }, { "creat64", CREATES }, { "mkdir", MAKES_DIRECTORY }, { "mkfifo", WRITES },
  { "mknod", WRITES }, { "mkstemp", MAKES_TEMPORARY }, { "mkstemp64", MAKES_TEMPORARY },
  { "mkostemp", MAKES_TEMPORARY }, { "mkostemp64", MAKES_TEMPORARY }, { "mkstemps", MAKES_TEMPORARY },
  { "mkstemps64", MAKES_TEMPORARY }, { "mkostemps", MAKES_TEMPORARY }, { "mkostemps64", MAKES_TEMPORARY },
  { "mkdtemp", MAKES_TEMPORARY }, { "rmdir", WRITES }, { "remove", WRITES },
  { "unlink", WRITES },
  { "__xmknod", WRITES | PATH (1) }, { "link", WRITES | PATH (1) }, { "symlink", WRITES | PATH (1) },
  { "mkdirat", WRITES | AT (1) }, { "mkfifoat", WRITES | AT (1) }, { "mknodat", WRITES | AT (1) },
  { "unlinkat", WRITES | AT (1) },
  { "__xmknodat", WRITES | AT (2) }, { "symlinkat", WRITES | AT (2) },
  { "rename", RENAMES }, { "renameat", RENAMES | AT (1) }, { "renameat2", RENAMES | AT (1) },
  { "linkat", WRITES | AT (3) },
  { "freopen", REOPEN }, { "freopen64", REOPEN }, { "bind", BIND },
  { "chroot", MOVES }, { "pivot_root", MOVES }, { "mount", MOVES }, { "umount", MOVES },
  { "umount2", MOVES }, { "unshare", MOVES }, { "setns", MOVES }, { "clone", CLONE | PATH (2) },
  { "prctl", CONTROL }, { "fsmount", MOVES }, { "move_mount", MOVES }, { "open_tree", MOVES },
  { "mount_setattr", MOVES },
  { "setuid", IDENTITY }, { "setgid", IDENTITY }, { "seteuid", IDENTITY }, { "setegid", IDENTITY },
  { "setreuid", IDENTITY }, { "setregid", IDENTITY }, { "setresuid", IDENTITY },
  { "setresgid", IDENTITY }, { "setgroups", IDENTITY }, { "initgroups", IDENTITY },
  { "setfsuid", IDENTITY }, { "setfsgid", IDENTITY }, { "capset", IDENTITY },
  { "wait", FORGETS }, { "waitpid", FORGETS }, { "wait3", FORGETS }, { "wait4", FORGETS },
  { "waitid", FORGETS }, { "system", FORKS }, { "popen", FORKS }, { "pclose", FORGETS },
  { "fork", FORKS }, { "_Fork", FORKS }, { "vfork", FORKS }, { "forkpty", FORKS },
  { "posix_spawn", EXECUTES | PATH (1) }, { "posix_spawnp", EXECUTES | PATH (1) },
  { "pidfd_spawn", EXECUTES | PATH (1) },
  { "pidfd_spawnp", EXECUTES | PATH (1) },
  { "fchdir", CHANGES_FILE },
  { "chmod", FORGETS }, { "fchmod", CHANGES_FILE }, { "lchmod", FORGETS }, { "fchmodat", FORGETS | AT (1) },
  { "chown", FORGETS }, { "fchown", CHANGES_FILE }, { "lchown", FORGETS }, { "fchownat", FORGETS | AT (1) },
  { "utime", FORGETS }, { "utimes", FORGETS }, { "lutimes", FORGETS }, { "futimes", CHANGES_FILE },
  { "futimesat", FORGETS | AT (1) }, { "futimens", CHANGES_FILE }, { "utimensat", FORGETS | AT (1) },
  { "setxattr", FORGETS }, { "lsetxattr", FORGETS }, { "fsetxattr", CHANGES_FILE },
  { "removexattr", FORGETS }, { "lremovexattr", FORGETS }, { "fremovexattr", CHANGES_FILE },
  { "fgetxattr", USES_FILE }, { "flistxattr", USES_FILE }, { "flock", USES_FILE },
  { "lockf", USES_FILE }, { "lockf64", USES_FILE }, { "fcntl", FILE_CONTROL },
  { "fcntl64", FILE_CONTROL },
  { "execve", EXECUTES }, { "execv", EXECUTES }, { "execvp", EXECUTES },
  { "execvpe", EXECUTES }, { "execl", EXECUTES }, { "execlp", EXECUTES },
  { "execle", EXECUTES }, { "fexecve", FORKS },
  { "execveat", FORKS },
  { "statfs", STAT_FILE_SYSTEM }, { "statfs64", STAT_FILE_SYSTEM },
  { "statvfs", STAT_FILE_SYSTEM }, { "statvfs64", STAT_FILE_SYSTEM },
};
#define CALL_COUNT (sizeof calls / sizeof *calls)
_Static_assert (CALL_COUNT <= CALLS, "room for all");

/* For each call, the function that the stub jumps to; 0 if there is none. */
static elf_word functions[CALLS] STATE = { 0 };
/* By address: index of the call + 1. */
#define PLACES 512u
static struct
{
  elf_word address;
  uint32_t call;
} places[PLACES] STATE = { { 0, 0 } };
static const struct link_map *libc STATE = NULL, *libpthread STATE = NULL;
static int *(*error_number) (void) STATE = NULL;
/* Points to __libc_single_threaded, which is nonzero while there is one thread. */
static const char *single_threaded STATE = NULL;
static elf_word duplicate STATE = 0, read_directory STATE = 0, read_file STATE = 0;
static unsigned char is_armed STATE = 0;
static const char no_path[] = "";

/* 16 bytes each, in the order of the calls. */
__asm__ (".pushsection .text\n"
         ".p2align 4\n"
         "becalm_stubs:\n"
         ".set number, 0\n"
         ".rept " TEXT (CALLS) "\n"
         " .p2align 4\n" STUB_ENTRY
         " .set number, number + 1\n"
         ".endr\n"
         ".p2align 4\n"
         "becalm_stub:\n" STUB_BODY
         ".popsection\n");
extern const unsigned char becalm_stubs[] __attribute__ ((visibility ("hidden")));

#define NO_CREAT 0100
#define TMPFILE_ONLY 020000000
#define WRITE_OR_TRUNCATE 01003
#define READ_AND_WRITE 2u
#define NEW_MOUNTS 0x00020000
#define SET_SECCOMP 22

/* The action of the stub: returns the value in the first argument, or jumps to the call's
   function. */
enum outcome
{
  PASSES,
  ANSWERED,
  /* Jumps to strdup. */
  DUPLICATES,
  /* Jumps to fdopendir, or fdopen. */
  READS_DIRECTORY,
  READS_FILE,
};

static enum outcome
fail (elf_word *args, int error, elf_sword value)
{
  *error_number () = error;
  args[0] = (elf_word) value;
  return ANSWERED;
}

#define NOT_THERE 2
#define NOT_ALLOWED 13
#define IS_THERE 17
#define NOT_A_LINK 22
#define IS_READ_ONLY 30

/* Looks at a path that need not be stat'ed. */
static enum tree_answer
look_at (elf_word path, int follow, struct statx *found)
{
  return paths_ask ((const char *) path, PATHS_ABSENT) == PATHS_ABSENT ? TREE_ABSENT
                                                                       : tree_stat ((const char *) path, follow, found);
}

static int
is_absent (elf_word path)
{
  struct statx ignored;
  return look_at (path, 1, &ignored) == TREE_ABSENT;
}

/* Opens a path if the kernel need not be asked; the descriptor is for OPENED. Of a call that may be cancelled,
   PATH is the argument with the path, else NULL. */
static enum outcome
open_known (elf_word *args, const char *name, unsigned flags, enum outcome opened, elf_word *path)
{
  const elf_sword failed = opened == ANSWERED ? -1 : 0;
  const long fd = paths_ask (name, PATHS_ABSENT) == PATHS_ABSENT ? TREE_NOT_THERE : tree_open (name, flags);
  if (fd == TREE_NOT_THERE && (path == NULL || (single_threaded != NULL && *single_threaded != 0)))
    return fail (args, NOT_THERE, failed);
  /* Only libc knows whether the call is cancelled. */
  if (fd == TREE_NOT_THERE)
    *path = (elf_word) no_path;
  if (fd < 0)
    return PASSES;
  args[0] = (elf_word) fd;
  return opened;
}

/* open and openat: FLAGS follow the path. */
static enum outcome
open_path (elf_word *args, elf_word *path, int directory, int may_be_cancelled)
{
  unsigned flags = (unsigned) path[1];
  if (flags & (NO_CREAT | TMPFILE_ONLY))
    {
      paths_created (directory, (const char *) *path);
      return PASSES;
    }
  return open_known (args, (const char *) *path, flags, ANSWERED, may_be_cancelled ? path : NULL);
}

static enum outcome
open_file (elf_word *args)
{
  const char *mode = (const char *) args[1];
  if (mode == NULL)
    return PASSES;
  int is_plain = mode[0] == 'r';
  unsigned flags = 0;
  for (unsigned i = 1; is_plain && mode[i] != '\0'; i++)
    {
      is_plain = i < 6 && mode[i] != ',';
      flags |= mode[i] == 'e' ? TREE_CLOSE_ON_EXEC : 0;
      flags |= mode[i] == '+' ? READ_AND_WRITE : 0;
    }
  if (!is_plain)
    {
      if (mode[0] != 'r')
        paths_created (AT_FDCWD, (const char *) args[0]);
      return PASSES;
    }
  return open_known (args, (const char *) args[0], flags, READS_FILE, args);
}

static uint64_t
device (uint32_t major, uint32_t minor)
{
  return (minor & 0xffu) | (uint64_t) (major & 0xfffu) << 8 | (uint64_t) (minor & ~0xffu) << 12
         | (uint64_t) (major & ~0xfffu) << 32;
}

static void
fill (struct stat *to, const struct statx *from)
{
  const struct stat filled
      = { .dev = device (from->dev_major, from->dev_minor),
          .ino = from->ino,
          .nlink = from->nlink,
          .mode = from->mode,
          .uid = from->uid,
          .gid = from->gid,
          .rdev = device (from->rdev_major, from->rdev_minor),
          .size = from->size,
          .blksize = from->blksize,
          .blocks = from->blocks,
          .atime = (uint64_t) from->atime.sec,
          .atime_nsec = from->atime.nsec,
          .mtime = (uint64_t) from->mtime.sec,
          .mtime_nsec = from->mtime.nsec,
          .ctime = (uint64_t) from->ctime.sec,
          .ctime_nsec = from->ctime.nsec };
  memcpy (to, &filled, STAT_SIZE);
}

#define NO_FOLLOW 0x100u
#define NO_AUTOMOUNT 0x800u

/* Finds the stat of PATH, relative to DIRECTORY; FLAGS are those of fstatat. If it is not WANTED, only finds
   out that there is no such path. */
static enum tree_answer
known_stat (int directory, const char *path, unsigned flags, int is_wanted, struct statx *found)
{
  if (flags & EMPTY_PATH && path != NULL && *path == '\0')
    return is_wanted && tree_stat_open (directory, found) ? TREE_FOUND : TREE_UNKNOWN;
  const enum path_answer answer = paths_ask (path, PATHS_DIRECTORY);
  if (answer == PATHS_ABSENT)
    return TREE_ABSENT;
  if (!is_wanted)
    return TREE_UNKNOWN;
  if (answer == PATHS_DIRECTORY)
    return paths_stat (path, found) ? TREE_FOUND : TREE_UNKNOWN;
  return tree_stat (path, !(flags & NO_FOLLOW), found);
}

/* Returns the outcome of a call that returns 0 if the path is there. */
static enum outcome
succeed_or_fail (elf_word *args, enum tree_answer answer)
{
  if (answer == TREE_ABSENT)
    return fail (args, NOT_THERE, -1);
  if (answer == TREE_UNKNOWN)
    return PASSES;
  args[0] = 0;
  return ANSWERED;
}

/* Writes the stat to the structure at TO. */
static enum outcome
stat_path (elf_word *args, int directory, elf_word path, elf_word to, elf_word flags)
{
  struct statx found;
  if ((unsigned) flags & ~(NO_FOLLOW | NO_AUTOMOUNT | EMPTY_PATH))
    return PASSES;
  const enum tree_answer answer
      = known_stat (directory, (const char *) path, (unsigned) flags, to != 0, &found);
  if (answer == TREE_FOUND)
    fill ((struct stat *) to, &found);
  return succeed_or_fail (args, answer);
}

/* statx: path, flags, mask, result. */
static enum outcome
statx_path (elf_word *args, int directory, const elf_word *path)
{
  const unsigned known = NO_FOLLOW | NO_AUTOMOUNT | EMPTY_PATH, reserved = 0x80000000u;
  const unsigned remembered_fields = 0xfff;
  const unsigned flags = (unsigned) path[1], mask = (unsigned) path[2];
  struct statx found, *to = (struct statx *) path[3];
  if (flags & ~(known | DONT_SYNC) || mask & reserved)
    return PASSES;
  const enum tree_answer answer = known_stat (directory, (const char *) *path, flags,
                                              to != NULL && !(mask & ~remembered_fields), &found);
  if (answer == TREE_FOUND)
    memcpy (to, &found, sizeof found);
  return succeed_or_fail (args, answer);
}

static enum outcome
access_path (elf_word *args, elf_word path, elf_word mode, elf_word flags)
{
  const unsigned known = NO_FOLLOW | 0x200;
  struct statx found;
  if ((unsigned) mode & ~7u || (unsigned) flags & ~known)
    return PASSES;
  const enum tree_answer answer = look_at (path, !(flags & NO_FOLLOW), &found);
  if (answer != TREE_FOUND)
    return succeed_or_fail (args, answer);
  const unsigned may_execute = 1, may_write = 2;
  const int is_refused = mode & may_write || (mode & may_execute && !(found.mode & 0111));
  /* Whether it may be read, the kernel decides, unless it was packed: then it is as on a read-only mount. */
  if ((unsigned) mode != 0 && (!tree_is_told () || (is_refused && !tree_is_packed ((const char *) path))))
    return PASSES;
  if (is_refused)
    return fail (args, mode & may_write ? IS_READ_ONLY : NOT_ALLOWED, -1);
  return succeed_or_fail (args, answer);
}

static enum outcome
read_link (elf_word *args, elf_word path, elf_word to, elf_sword size)
{
  if (size <= 0 || to == 0)
    return PASSES;
  const char *target = NULL;
  const enum path_answer known = paths_ask ((const char *) path, PATHS_FILE);
  const enum tree_answer answer = known == PATHS_ABSENT    ? TREE_ABSENT
                                  : known != PATHS_UNKNOWN ? TREE_FOUND
                                                           : tree_link ((const char *) path, &target);
  if (answer == TREE_UNKNOWN)
    return PASSES;
  if (answer == TREE_ABSENT || target == NULL)
    return fail (args, answer == TREE_ABSENT ? NOT_THERE : NOT_A_LINK, -1);
  size_t length = strlen (target);
  length = length < (size_t) size ? length : (size_t) size;
  memcpy ((char *) to, target, length);
  args[0] = length;
  return ANSWERED;
}

/* realpath: a path that is already real is copied, by libc if that needs memory. */
static enum outcome
real_path (elf_word *args, elf_word to)
{
  const char *path = (const char *) args[0];
  enum path_answer answer = paths_ask (path, PATHS_FILE);
  if (answer == PATHS_UNKNOWN)
    path = tree_real (path);
  else if (!paths_is_real (path))
    path = NULL;
  if (path == NULL)
    return PASSES;
  /* After an error the buffer has the part of the path up to the missing component. */
  if (answer == PATHS_ABSENT)
    return to == 0 ? fail (args, NOT_THERE, 0) : PASSES;
  if (to == 0 && duplicate == 0)
    return PASSES;
  args[0] = (elf_word) path;
  if (to == 0)
    return DUPLICATES;
  memcpy ((char *) to, path, strlen (path) + 1);
  args[0] = to;
  return ANSWERED;
}

/* A program that is told of a directory need not hear that the one above it is gone. */
static enum outcome
make_directory (elf_word *args, elf_word path)
{
  struct statx found;
  if (tree_is_told () && tree_stat ((const char *) path, 0, &found) == TREE_FOUND)
    return fail (args, IS_THERE, -1);
  paths_written (AT_FDCWD, (const char *) path, 0);
  return PASSES;
}

/* A socket with a path. */
static void
binds (const elf_word *args)
{
  const uint16_t *address = (const uint16_t *) args[1];
  const unsigned unix_family = 1, longest = 108;
  char path[109];
  unsigned size = (unsigned) args[2];
  if (address == NULL || size <= sizeof *address || size > sizeof *address + longest
      || *address != unix_family)
    return;
  size -= sizeof *address;
  memcpy (path, address + 1, size);
  path[size] = '\0';
  if (path[0] != '\0')
    paths_written (AT_FDCWD, path, 0);
}

/* The effects of syscall(), by number; its arguments are one position later. */
static const uint16_t effects[] = {
# ifdef NR_open
  [NR_open] = OPEN, [NR_stat] = STAT, [NR_lstat] = LSTAT, [NR_fstat] = FSTAT, [NR_access] = ACCESS,
  [NR_readlink] = READ_LINK, [NR_creat] = CREATES, [NR_mkdir] = MAKES_DIRECTORY, [NR_rmdir] = WRITES,
  [NR_mknod] = WRITES, [NR_unlink] = WRITES, [NR_link] = WRITES | PATH (1), [NR_symlink] = WRITES | PATH (1),
  [NR_rename] = RENAMES, [NR_fork] = FORKS, [NR_vfork] = FORKS, [NR_chmod] = FORGETS, [NR_chown] = FORGETS,
  [NR_lchown] = FORGETS, [NR_utime] = FORGETS, [NR_utimes] = FORGETS, [NR_futimesat] = FORGETS | AT (1),
# endif
  [NR_openat] = OPEN | AT (1), [NR_openat2] = KERNEL_OPEN_HOW | AT (1), [NR_newfstatat] = STAT | AT (1),
  [NR_statx] = STATX | AT (1), [NR_faccessat2] = ACCESS | AT (1), [NR_readlinkat] = READ_LINK | AT (1),
  /* Without flags. */
  [NR_faccessat] = ACCESS | PATH (1),
  [NR_mkdirat] = WRITES | AT (1), [NR_mknodat] = WRITES | AT (1), [NR_unlinkat] = WRITES | AT (1),
  [NR_symlinkat] = WRITES | AT (2), [NR_linkat] = WRITES | AT (3), [NR_renameat] = RENAMES | AT (1),
  [NR_renameat2] = RENAMES | AT (1),
  [NR_fchmodat] = FORGETS | AT (1), [NR_fchmodat2] = FORGETS | AT (1), [NR_fchownat] = FORGETS | AT (1),
  [NR_utimensat] = FORGETS | AT (1), [NR_wait4] = FORGETS, [NR_waitid] = FORGETS, [NR_setxattr] = FORGETS,
  [NR_lsetxattr] = FORGETS, [NR_removexattr] = FORGETS, [NR_lremovexattr] = FORGETS,
  [NR_fchmod] = CHANGES_FILE, [NR_fchown] = CHANGES_FILE, [NR_fsetxattr] = CHANGES_FILE,
  [NR_fremovexattr] = CHANGES_FILE, [NR_flock] = USES_FILE, [NR_fcntl] = FILE_CONTROL,
  [NR_execve] = EXECUTES, [NR_clone] = CLONE, [NR_clone3] = KERNEL_CLONE3, [NR_prctl] = CONTROL,
  [NR_setuid] = IDENTITY, [NR_setgid] = IDENTITY, [NR_setreuid] = IDENTITY, [NR_setregid] = IDENTITY,
  [NR_setresuid] = IDENTITY, [NR_setresgid] = IDENTITY, [NR_setgroups] = IDENTITY, [NR_setfsuid] = IDENTITY,
  [NR_setfsgid] = IDENTITY, [NR_capset] = IDENTITY,
  [NR_chroot] = MOVES, [NR_pivot_root] = MOVES, [NR_mount] = MOVES, [NR_umount2] = MOVES, [NR_unshare] = MOVES,
  [NR_setns] = MOVES, [NR_seccomp] = MOVES, [NR_open_tree] = MOVES, [NR_move_mount] = MOVES, [NR_fsmount] = MOVES,
  [NR_mount_setattr] = MOVES,
};

/* openat2: path, struct open_how of three numbers, its size. */
static enum outcome
open_path_how (elf_word *args, const elf_word *path, int directory)
{
  const uint64_t *how = (const uint64_t *) path[1];
  if (how == NULL || path[2] != 24)
    return PASSES;
  if (how[0] & (NO_CREAT | TMPFILE_ONLY))
    paths_created (directory, (const char *) *path);
  else if (how[1] == 0 && how[2] == 0 && is_absent (*path))
    return fail (args, NOT_THERE, -1);
  return PASSES;
}

static void
no_answers (void)
{
  paths_off ();
  tree_off ();
}

static enum outcome
forks (void)
{
  tree_restore_all ();
  paths_forget ();
  return PASSES;
}

/* True if a call follows a link that the last name of its path is. */
static int
follows_last (enum does does, int is_relative, const elf_word *path)
{
  const unsigned only_new = 0300;
  switch (does)
    {
    case OPEN: return !(path[1] & TREE_NO_FOLLOW) && (path[1] & only_new) != only_new;
    case STAT: case ACCESS: return !is_relative || !(path[2] & NO_FOLLOW);
    case STATX: return !(path[1] & NO_FOLLOW);
    case OPEN_FILE: case OPEN_DIRECTORY: case SCAN: case REAL_PATH: case REAL_PATH_CHECKED: case CANONICAL:
    case CREATES: case REOPEN: case STAT_FILE_SYSTEM:
      return 1;
    default: return 0;
    }
}

/* Lets the descriptors by which a call changes something be those of the tree. Returns 0 if it is gone. */
static int
leave_pack (unsigned call, const elf_word *of)
{
  const unsigned position = call >> 8 & 3;
  const elf_word *path = of + position;
  const char *name = (const char *) *path;
  unsigned flags = WRITE_OR_TRUNCATE;
  switch ((enum does) (call & EFFECT))
    {
    case CHANGES_FILE: return tree_leave_pack ((int) *path);
    case OPEN: flags = (unsigned) path[1]; break;
    case KERNEL_OPEN_HOW: flags = path[1] != 0 ? (unsigned) *(const uint64_t *) path[1] : 0; break;
    /* Another path follows, or is before it. */
    case RENAMES:
      if (call & RELATIVE && !tree_leave_pack ((int) path[1]))
        return 0;
      break;
    case WRITES:
      if (position == 3 && !tree_leave_pack ((int) of[0]))
        return 0;
      break;
    case FORGETS: break;
    default: return 1;
    }
  return !(call & RELATIVE) || !(flags & (WRITE_OR_TRUNCATE | NO_CREAT | TMPFILE_ONLY))
         || (name != NULL && *name == '/') || tree_leave_pack ((int) path[-1]);
}

/* Carries out a call. OF are the arguments that it uses; the result is returned in ARGS. */
static enum outcome
perform (unsigned call, elf_word *args, elf_word *of)
{
  const enum does does = call & EFFECT;
  const int is_relative = (call & RELATIVE) != 0;
  elf_word *path = of + (call >> 8 & 3), *second = path + 1 + is_relative;
  const int directory = is_relative ? (int) path[-1] : AT_FDCWD;
  const unsigned command = (unsigned) path[1];
  if (call & VERSION && (unsigned) of[0] > 1)
    return PASSES;
  if (tree_is_told () && !leave_pack (call, of))
    return fail (args, NOT_THERE, -1);
  if (does <= LAST_WITH_PATH && tree_is_told ())
    {
      *path = (elf_word) tree_outside ((const char *) *path, follows_last (does, is_relative, path));
      if (does == RENAMES)
        *second = (elf_word) tree_outside ((const char *) *second, 0);
    }
  switch (does)
    {
    /* A call by number is no cancellation point. */
    case OPEN: return open_path (args, path, directory, args == of);
    case KERNEL_OPEN_HOW: return open_path_how (args, path, directory);
    case OPEN_FILE: return open_file (args);
    case OPEN_DIRECTORY:
      return open_known (args, (const char *) *path, TREE_DIRECTORY | TREE_NONBLOCKING | TREE_CLOSE_ON_EXEC,
                         READS_DIRECTORY, NULL);
    case SCAN: return is_absent (*path) ? fail (args, NOT_THERE, -1) : PASSES;
    case STAT: return stat_path (args, directory, *path, path[1], is_relative ? path[2] : 0);
    case LSTAT: return stat_path (args, directory, *path, path[1], NO_FOLLOW);
    case FSTAT: return stat_path (args, (int) *path, (elf_word) no_path, path[1], EMPTY_PATH);
    case STATX: return statx_path (args, directory, path);
    case ACCESS: return access_path (args, *path, path[1], is_relative ? path[2] : 0);
    case READ_LINK: return read_link (args, *path, path[1], (elf_sword) path[2]);
    case REAL_PATH: return real_path (args, path[1]);
    case REAL_PATH_CHECKED: return path[2] >= 4096 ? real_path (args, path[1]) : PASSES;
    case CANONICAL: return real_path (args, 0);
    case WRITES: case MAKES_TEMPORARY: paths_written (directory, (const char *) *path, 0); break;
    case CREATES: paths_created (directory, (const char *) *path); break;
    case MAKES_DIRECTORY: return make_directory (args, *path);
    case RENAMES:
      paths_written (directory, (const char *) *path, 1);
      paths_written (is_relative ? (int) second[-1] : AT_FDCWD, (const char *) *second, 1);
      break;
    case REOPEN:
      if (*path != 0 && path[1] != 0 && *(const char *) path[1] != 'r')
        paths_created (directory, (const char *) *path);
      break;
    case BIND: binds (of); break;
    case CHANGES_FILE: case USES_FILE: tree_restore ((int) *path); paths_forget (); break;
    case FILE_CONTROL:
      /* F_GETLK, F_SETLK, F_SETLKW, the same for open file descriptions, F_SETLEASE, F_NOTIFY. */
      if (command - 5 <= 2 || command - 36 <= 2 || command == 1024 || command == 1026)
        tree_restore ((int) *path);
      break;
    case STAT_FILE_SYSTEM: *path = (elf_word) tree_place ((const char *) *path); break;
    case EXECUTES: *path = (elf_word) tree_place ((const char *) *path); return forks ();
    case FORKS: return forks ();
    case FORGETS: paths_forget (); break;
    case MOVES: no_answers (); break;
    case IDENTITY: tree_off (); break;
    case CLONE: case KERNEL_CLONE3:
      if (does == CLONE ? *path & NEW_MOUNTS : *path != 0 && *(const uint64_t *) *path & NEW_MOUNTS)
        no_answers ();
      return forks ();
    case CONTROL:
      /* The system calls of a check may be forbidden from here on. */
      if ((int) *path == SET_SECCOMP)
        no_answers ();
      break;
    default: break;
    }
  return PASSES;
}

/* Called by the stub of a call with its arguments. Returns the address to jump to; 0 to return
   the first argument. */
__attribute__ ((used, visibility ("hidden"))) elf_word
becalm_stub_called (unsigned call, elf_word *args)
{
  const int is_by_number = calls[call].does == SYSTEM_CALL;
  unsigned does = calls[call].does;
  if (is_by_number)
    does = args[0] < sizeof effects / sizeof *effects ? effects[args[0]] : NOTHING;
  const enum outcome outcome = does == NOTHING ? PASSES : perform (does, args, args + is_by_number);
  const elf_word to[] = { [PASSES] = functions[call], [ANSWERED] = 0, [DUPLICATES] = duplicate,
                          [READS_DIRECTORY] = read_directory, [READS_FILE] = read_file };
  return to[outcome];
}

void
stubs_see (const struct link_map *map)
{
  if (!stubs_are_wanted ())
    return;
  const char *soname = dynamic_string (map, DT_SONAME);
  if (soname != NULL && text_equal (soname, "libc.so.6"))
    libc = map;
  else if (soname != NULL && text_equal (soname, "libpthread.so.0"))
    libpthread = map;
}

static uint32_t
place_of (elf_word address)
{
  return (uint32_t) (address >> 4 ^ address >> 12) % PLACES;
}

static void
add_function (uint32_t call, elf_word address)
{
  uint32_t at = place_of (address);
  while (places[at].address != 0 && places[at].address != address)
    at = (at + 1) % PLACES;
  /* Two names of one function have one stub. */
  if (places[at].address == 0)
    {
      places[at].address = address;
      places[at].call = call;
    }
}

/* The stub jumps to the function of libpthread.so.0 if there are two, as before 2.34. */
static uint32_t
find_functions (void)
{
  uint32_t found = 0;
  for (uint32_t i = 0; i < CALL_COUNT; i++)
    {
      elf_word of_libc = (elf_word) dynamic_symbol (libc, calls[i].name);
      elf_word of_threads
          = libpthread != NULL ? (elf_word) dynamic_symbol (libpthread, calls[i].name) : 0;
      if (of_libc != 0)
        add_function (i, of_libc);
      if (of_threads != 0)
        add_function (i, of_threads);
      functions[i] = of_threads != 0 ? of_threads : of_libc;
      found += functions[i] != 0;
    }
  return found;
}

static const char *
arm (void)
{
  if (libc == NULL)
    return "no-libc";
  elf_word errno_place = (elf_word) dynamic_symbol (libc, "__errno_location");
  if (errno_place == 0)
    return "no-libc";
  memcpy (&error_number, &errno_place, sizeof errno_place);
  if (!clock_init (libc))
    return "no-clock";
  int has_paths = process.wants_paths && paths_init (), has_tree = tree_init ();
  if (!has_paths)
    paths_off ();
  if (!has_paths && !has_tree)
    return "no-paths";
  single_threaded = dynamic_symbol (libc, "__libc_single_threaded");
  duplicate = (elf_word) dynamic_symbol (libc, "strdup");
  read_directory = (elf_word) dynamic_symbol (libc, "fdopendir");
  read_file = (elf_word) dynamic_symbol (libc, "fdopen");
  return read_directory != 0 && read_file != 0 && find_functions () > 0 ? NULL : "no-libc";
}

void
stubs_arm (void)
{
  if (!stubs_are_wanted ())
    return;
  const char *why = arm ();
  if (why != NULL)
    stubs_decline (why);
  else
    is_armed = 1;
}

int
stubs_serve (elf_word address, elf_word definer)
{
  if (!is_armed)
    return 0;
  elf_word threads = libpthread != NULL ? libpthread->addr : libc->addr;
  return (definer == libc->addr || definer == threads) && address != libc->addr
         && address != threads;
}

elf_word
stubs_redirect (elf_word function)
{
  uint32_t at = place_of (function);
  for (; places[at].address != 0; at = (at + 1) % PLACES)
    if (places[at].address == function)
      return (elf_word) (becalm_stubs + 16 * (uintptr_t) places[at].call);
  return function;
}

void
stubs_finish (void)
{
  char digits[DIGITS_SIZE];
  uint32_t count = 0;
  if (!is_armed)
    return;
  for (uint32_t i = 0; i < CALL_COUNT; i++)
    count += functions[i] != 0;
  if (process.wants_paths)
    log_line ("paths", NULL, "served", digits_of (count, digits), NULL);
  if (tree_count () > 0)
    log_line ("trees", NULL, "served", digits_of (tree_count (), digits), NULL);
}

#else

void stubs_see (const struct link_map *map) { (void) map; }
void stubs_arm (void) { stubs_decline ("machine"); }
void stubs_finish (void) {}
int stubs_serve (elf_word address, elf_word definer) { return address == 0 && definer == 0; }
elf_word stubs_redirect (elf_word function) { return function; }

#endif

int
stubs_are_wanted (void)
{
  return process.wants_paths || process.trees != NULL;
}

void
stubs_decline (const char *why)
{
  if (!process.wants_paths || why_declined != NULL)
    return;
  why_declined = why;
  log_line ("paths", NULL, "declined", why, NULL);
}
