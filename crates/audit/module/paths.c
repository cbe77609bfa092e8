/* Finds out which paths exist (docs/paths.md): reads the table, and checks the conditions of its
   answers.

   The table has a hash of each path's components. A path whose hash is in the table may be
   another one by chance; a path whose hash is not in the table does not exist, as long as the
   package is as it was indexed. The package is unchanged while its store is (the store's own
   directory changes with every package that is added or removed) and nothing is mounted below
   it. This is checked every two seconds at most, and only for a path that has an answer.

   There is no lock and no lazy initialisation: each remembered result is one atomic word, and a
   thread that comes late checks again. */
#include "paths.h"
#include "condition.h"
#include "dynamic.h"
#include "hash.h"
#include "process.h"
#include "volume.h"

#if HAS_PATHS

_Static_assert (sizeof (struct table_path_root) == 64, "as becalm writes it");
_Static_assert (sizeof (struct table_path_package) == 80, "as becalm writes it");
_Static_assert (sizeof (struct table_path_link) == 32, "as becalm writes it");

/* The milliseconds for which a check is valid. Time is read from a clock with a granularity of
   up to 10. */
#define LOOK_COUNTS 1900u
#define LONGEST_ROOT 200u
#define LONGEST_NAME 255u
#define LONGEST_PATH 4095u
/* The most packages that a path leads through, by links. */
#define MOST_PACKAGES 8u

/* The result of a check: the result in the lower two bits, its time of expiry (milliseconds) in
   the others. */
enum
{
  UNSEEN = 0,
  /* A root: unchanged since it was indexed. A package: its record is undamaged, it was not
     checked. */
  SAME = 1,
  /* A root: packages were added or removed. A package: unchanged. */
  CHANGED = 2,
  HOLDS = 2,
  /* No answers; for a package this is permanent. */
  FAILS = 3,
};

static struct root
{
  const char *path;
  size_t length;
  uint64_t state;
  uint64_t look;
  /* The time until which its path is known to have no links. */
  uint64_t real;
  /* The device and mount of the directory as it is now, written before `look`. */
  uint64_t dev, mount;
} roots[PATH_MOST_ROOTS] STATE = { { NULL, 0, 0, 0, 0, 0, 0 } };
static uint32_t root_count STATE = 0;
static const struct table_path_package *packages STATE = NULL;
static const uint32_t *slots STATE = NULL;
/* One for each package. */
static uint64_t *looks STATE = NULL;
/* A bit for each block with a verified checksum. */
static unsigned char *checked_blocks STATE = NULL;
static unsigned char is_off STATE = 0;
/* The stat of a directory may change: none is remembered any more. */
static unsigned char is_forgetful STATE = 0;
/* Directories in no store, each by a hash of its device and inode: names are made in them often. */
#define OUTSIDE 64u
static uint64_t outside[OUTSIDE] STATE = { 0 };

/* Directories whose stat is remembered. */
#define MEMOS 1024u
#define MEMO_TRIES 8u
struct memo
{
  /* 0: free, 1: being written, 2: complete and never changed again. */
  uint32_t stage;
  char path[244];
  uint64_t hash;
  struct statx found;
};
static struct memo *memos STATE = NULL;

static int (*read_clock) (int, int64_t[2]) STATE = NULL;

#ifdef CLOCK_BY_CALL
/* For tests under emulators without a vDSO. */
static int
clock_by_call (int clock, int64_t time[2])
{
  return (int) system_call (NR_clock_gettime, clock, (long) time, 0, 0, 0);
}
#endif

int
clock_init (const struct link_map *object)
{
#if defined __x86_64__
  static const char name[] = "__vdso_clock_gettime";
#else
  static const char name[] = "__kernel_clock_gettime";
#endif
  /* glibc 2.31 does not announce it. */
  while (object->prev != NULL)
    object = object->prev;
  while (object != NULL && !process_is_vdso (object))
    object = object->next;
  void *clock = object != NULL ? dynamic_symbol (object, name) : NULL;
  memcpy (&read_clock, &clock, sizeof clock);
#ifdef CLOCK_BY_CALL
  read_clock = read_clock != NULL ? read_clock : clock_by_call;
#endif
  return read_clock != NULL && clock_now () != 0;
}

uint64_t
clock_now (void)
{
  const int monotonic_coarse = 6;
  int64_t time[2];
  if (read_clock (monotonic_coarse, time) != 0)
    return 0;
  return (uint64_t) time[0] * 1000 + (uint64_t) (uint32_t) ((uint32_t) time[1] / 1000000u) + 1;
}

int
paths_init (void)
{
  const uint32_t package_count = sections[SECTION_PATH_PACKAGES].count;
  root_count = sections[SECTION_PATH_ROOTS].count;
  packages = sections[SECTION_PATH_PACKAGES].records;
  slots = sections[SECTION_PATH_SLOTS].records;
  if (root_count == 0 || root_count > PATH_MOST_ROOTS || package_count == 0
      || sections[SECTION_PATH_LINKS].records == NULL || slots == NULL)
    return 0;
  for (uint32_t i = 0; i < root_count; i++)
    {
      struct root *root = &roots[i];
      const struct table_path_root *record = table_record (SECTION_PATH_ROOTS, i, &root->path);
      root->length = record != NULL ? strlen (root->path) : 0;
      if (root->length < 2 || root->length > LONGEST_ROOT || record->flags > PATH_ROOT_CHOSEN)
        return 0;
      root->state = hash_bytes (0, root->path, root->length);
    }
  /* A block has at least three words. */
  size_t of_packages = (size_t) package_count * sizeof *looks;
  size_t of_blocks = sections[SECTION_PATH_SLOTS].count / 24 + 1, of_memos = MEMOS * sizeof *memos;
  unsigned char *room = sys_allocate (of_memos + of_packages + of_blocks);
  if (room == NULL)
    return 0;
  memos = (struct memo *) room;
  looks = (uint64_t *) (room + of_memos);
  checked_blocks = room + of_memos + of_packages;
  return 1;
}

void
paths_off (void)
{
  STORE (is_off, 1);
}

static long
look_at (const char *path, struct statx *found)
{
  const int no_follow = 0x100, mount_id = 0x1000;
  return system_call (NR_statx, AT_FDCWD, (long) path, no_follow, STATX_BASIC_STATS | mount_id,
                      (long) found);
}

/* Returns the mount that a file is on, 0 from a kernel that does not report it (before 5.8). */
static uint64_t
mount_of (const struct statx *found)
{
  return found->mask & 0x1000 ? found->spare[0] : 0;
}

/* Returns the package with a state, UINT32_MAX if there is none. */
static uint32_t
find_package (uint64_t state)
{
  const uint32_t count = sections[SECTION_PATH_PACKAGES].count;
  uint32_t at = table_first_of (packages, count, sizeof *packages, 8, state);
  return at < count && packages[at].state == state ? at : UINT32_MAX;
}

/* Returns the root that a path is below, and where the part after it begins, without slashes. */
static struct root *
root_of (const char *path, const char **rest)
{
  for (uint32_t i = 0; i < root_count; i++)
    {
      const char *of = text_after (path, roots[i].path);
      if (of == NULL || *of != '/')
        continue;
      while (*of == '/')
        of++;
      *rest = of;
      return &roots[i];
    }
  return NULL;
}

/* Disables the package that a path is in; the path has neither "." nor "..". */
static void
turn_off (const char *path)
{
  const char *rest;
  const struct root *root = root_of (path, &rest);
  const uint32_t package
      = root != NULL ? find_package (hash_bytes (root->state, rest, length_to (rest, '/'))) : UINT32_MAX;
  if (package != UINT32_MAX)
    STORE (looks[package], FAILS);
}

/* Mount points, as /proc/self/mountinfo has them: the fifth field of each line. */
static int
see_mount (void *has_failed, unsigned number, const char *point, size_t length)
{
  const char *rest;
  if (number == 4 && length < FIELD_SIZE)
    turn_off (point);
  /* Too long to be parsed. A mount that is below no root does not matter. */
  else if (number == 4 && root_of (point, &rest) != NULL)
    *(int *) has_failed = 1;
  return 0;
}

static unsigned
look_at_root (struct root *root)
{
  const struct table_path_root *known
      = (const struct table_path_root *) sections[SECTION_PATH_ROOTS].records + (root - roots);
  int has_failed = 0, is_passing;
  struct statx found;
  /* The packages in which something is mounted are disabled. */
  if (look_at (root->path, &found) != 0 || (found.mode & 0170111) != 0040111
      || found.ino != known->ino || volume_now (&found, root->path, &is_passing) != known->volume
      || read_fields ("/proc/self/mountinfo", see_mount, &has_failed) != 0 || has_failed)
    return FAILS;
  STORE (root->dev, device_of (&found));
  STORE (root->mount, mount_of (&found));
  return same_times (&known->times, &found) ? SAME : CHANGED;
}

/* Returns the state of a store at TIME. The validity of a check begins before its first system
   call. */
static unsigned
root_now (struct root *root, uint64_t time)
{
  uint64_t look = LOAD (root->look);
  if (look >> 2 > time)
    return look & 3;
  unsigned outcome = look_at_root (root);
  STORE (root->look, (time + LOOK_COUNTS) << 2 | outcome);
  return outcome;
}

static unsigned
look_at_package (const struct root *root, const struct table_path_package *package)
{
  char path[LONGEST_ROOT + LONGEST_NAME + 2];
  const char *name = table_string (package->name);
  if (name == NULL || strlen (name) > LONGEST_NAME)
    return FAILS;
  join_path (path, sizeof path, root->path, root->length, name);
  struct statx found;
  if (look_at (path, &found) != 0 || found.ino != package->ino || !same_times (&package->times, &found))
    return FAILS;
  return device_of (&found) == LOAD (root->dev) && mount_of (&found) == LOAD (root->mount) ? HOLDS
                                                                                         : FAILS;
}

/* A damaged record gives no answers. */
static int
package_is_sound (const struct table_path_package *package)
{
  uint32_t words = package->words;
  return package->check == (uint32_t) hash_bytes (0, package, offsetof (struct table_path_package, check))
         && package->root < root_count && words >= 3
         && (words <= PATH_BLOCK || words % PATH_BLOCK == 0)
         && (uint64_t) package->slots + words <= sections[SECTION_PATH_SLOTS].count
         && (uint64_t) package->links + package->link_count <= sections[SECTION_PATH_LINKS].count;
}

/* True for a package with a sound record that nothing has disabled. */
static int
package_is_usable (uint32_t index)
{
  uint64_t look = LOAD (looks[index]);
  if (look == UNSEEN)
    {
      look = package_is_sound (packages + index) ? SAME : FAILS;
      uint64_t unseen = UNSEEN;
      if (!EXCHANGE (looks[index], &unseen, look))
        look = unseen;
    }
  return (look & 3) != FAILS;
}

/* True while a usable package is unchanged since it was indexed. */
static int
package_holds (uint32_t index, uint64_t time)
{
  const struct table_path_package *package = packages + index;
  struct root *root = &roots[package->root];
  unsigned state = root_now (root, time);
  uint64_t look = LOAD (looks[index]);
  /* A mount in it may just have been detected. */
  if (state == FAILS || (look & 3) == FAILS)
    return 0;
  if (state == SAME || look >> 2 > time)
    return 1;
  unsigned outcome = look_at_package (root, package);
  uint64_t next = outcome == HOLDS ? (time + LOOK_COUNTS) << 2 | HOLDS : FAILS;
  /* Unless it was disabled meanwhile. */
  while (!EXCHANGE (looks[index], &look, next))
    if ((look & 3) == FAILS)
      return 0;
  return outcome == HOLDS;
}

static int
block_is_sound (const struct table_path_package *package, uint32_t block, const uint32_t *words,
                uint32_t count)
{
  uint32_t number = package->blocks + block;
  unsigned char bit = (unsigned char) (1u << number % 8);
  if (number / 8 >= sections[SECTION_PATH_SLOTS].count / 24 + 1)
    return 0;
  if (LOAD (checked_blocks[number / 8]) & bit)
    return 1;
  if (words[0] != (uint32_t) hash_bytes (package->state + block, words + 1, 4 * (size_t) (count - 1)))
    return 0;
  __atomic_fetch_or (&checked_blocks[number / 8], bit, __ATOMIC_ACQ_REL);
  return 1;
}

/* Returns the kind of the path with a state in a package, 0 if there is none. */
static unsigned
find (const struct table_path_package *package, uint64_t state)
{
  uint32_t count = package->words <= PATH_BLOCK ? package->words : PATH_BLOCK;
  uint32_t blocks = package->words <= PATH_BLOCK ? 1 : package->words / PATH_BLOCK;
  uint64_t wide = (state >> 32) * blocks;
  uint32_t block = (uint32_t) (wide >> 32);
  const uint32_t *words = slots + package->slots + (uint64_t) block * PATH_BLOCK;
  if (!block_is_sound (package, block, words, count))
    return PATH_OTHER;
  const uint32_t *first = words + 1, size = count - 1;
  uint32_t at = (uint32_t) ((wide & 0xffffffffu) * size >> 32);
  for (uint32_t tried = 0; tried < size; tried++)
    {
      if (first[at] == 0)
        return 0;
      if ((first[at] ^ (uint32_t) state) < 8)
        return first[at] & 7;
      at = at + 1 == size ? 0 : at + 1;
    }
  return PATH_OTHER;
}

static const struct table_path_link *
find_link (const struct table_path_package *package, uint64_t state)
{
  const struct table_path_link *of_package
      = (const struct table_path_link *) sections[SECTION_PATH_LINKS].records + package->links;
  uint32_t count = package->link_count;
  uint32_t at = table_first_of (of_package, count, sizeof *of_package, 8, state);
  const struct table_path_link *found = &of_package[at];
  if (at == count || found->state != state
      || found->check != (uint32_t) hash_bytes (0, found, offsetof (struct table_path_link, check)))
    return NULL;
  return found;
}

/* Names that a directory may have without listing them, and names that may have two spellings. */
static int
name_is_odd (const char *name, size_t length)
{
  for (size_t i = 0; i < length; i++)
    if ((unsigned char) name[i] >= 0x80)
      return 1;
  if (name[0] != '.' && name[0] != '~')
    return 0;
  return name_is (name, length, ".zfs") || name_is (name, length, ".snapshot")
         || name_is (name, length, ".snapshots") || name_is (name, length, ".lustre")
         || name_is (name, length, "~snapshot");
}

const char *
paths_next_name (const char **at, size_t *length)
{
  for (;;)
    {
      while (**at == '/')
        (*at)++;
      const char *name = *at;
      *length = length_to (name, '/');
      *at += *length;
      if (*length == 0)
        return NULL;
      if (*length != 1 || name[0] != '.')
        return name;
    }
}

/* The packages that a path leads through. */
struct way
{
  uint32_t count, packages[MOST_PACKAGES];
};

/* Returns the package with a state, which the path leads through; NULL if it has no answers. */
static const struct table_path_package *
enter (struct way *way, uint64_t state)
{
  uint32_t index = find_package (state);
  if (index == UINT32_MAX || way->count == MOST_PACKAGES || !package_is_usable (index))
    return NULL;
  way->packages[way->count++] = index;
  return packages + index;
}

/* Returns the kind of a path if the packages on its way are unchanged. */
static enum path_answer
look_up (const char *path, struct way *way)
{
  const char *at, *name;
  size_t length;
  struct root *root = root_of (path, &at);
  if (root == NULL || (name = paths_next_name (&at, &length)) == NULL || length > LONGEST_NAME)
    return PATHS_UNKNOWN;
  uint64_t state = hash_bytes (root->state, name, length);
  const struct table_path_package *package = enter (way, state);
  if (package == NULL)
    return PATHS_UNKNOWN;
  unsigned kind = PATH_DIRECTORY;
  /* Below a link the kernel answers for existing paths. */
  int is_indirect = 0, is_below = 0;
  while ((name = paths_next_name (&at, &length)) != NULL)
    {
      is_below = 1;
      if (kind != PATH_DIRECTORY || length > LONGEST_NAME || name_is (name, length, "..")
          || name_is_odd (name, length))
        return PATHS_UNKNOWN;
      state = hash_bytes (state, name, length);
      kind = find (package, state);
      if (kind == 0)
        {
          /* The kernel does not look up the rest of a path after a missing component; it only checks the
             length. */
          at += strlen (at);
          return (size_t) (at - path) <= LONGEST_PATH && at[-1] != '/' ? PATHS_ABSENT : PATHS_UNKNOWN;
        }
      if (kind != PATH_LINK)
        continue;
      const struct table_path_link *link = find_link (package, state);
      if (link == NULL || (package = enter (way, link->package)) == NULL)
        return PATHS_UNKNOWN;
      state = link->target;
      if (state != link->package && find (package, state) != PATH_DIRECTORY)
        return PATHS_UNKNOWN;
      is_indirect = 1;
      kind = PATH_DIRECTORY;
    }
  /* Only the kernel knows whether a package exists. */
  if (is_indirect || !is_below || at[-1] == '/' || (size_t) (at - path) > LONGEST_PATH)
    return PATHS_UNKNOWN;
  return kind == PATH_DIRECTORY ? PATHS_DIRECTORY : kind == PATH_FILE ? PATHS_FILE : PATHS_UNKNOWN;
}

enum path_answer
paths_ask (const char *path, enum path_answer most)
{
  struct way way = { 0 };
  uint64_t time;
  if (path == NULL || path[0] != '/' || LOAD (is_off))
    return PATHS_UNKNOWN;
  enum path_answer answer = look_up (path, &way);
  /* The conditions cost system calls, so they are checked last, and only for an answer that is
     of use. */
  if (answer == PATHS_UNKNOWN || answer > most
      || (answer == PATHS_DIRECTORY && most == PATHS_DIRECTORY && LOAD (is_forgetful))
      || (time = clock_now ()) == 0)
    return PATHS_UNKNOWN;
  for (uint32_t i = 0; i < way.count; i++)
    if (!package_holds (way.packages[i], time))
      return PATHS_UNKNOWN;
  return answer;
}

/* A store's path was real when it was indexed; a directory above it may have become a link. */
static int
root_is_real (struct root *root)
{
  char path[LONGEST_ROOT + 1], ignored[8];
  uint64_t time = clock_now ();
  if (LOAD (root->real) > time)
    return 1;
  memcpy (path, root->path, root->length + 1);
  for (size_t i = root->length; i > 0; i--)
    if (i == root->length || path[i] == '/')
      {
        path[i] = '\0';
        if (sys_readlink (path, ignored, sizeof ignored) != EINVAL_NEG)
          return 0;
      }
  STORE (root->real, time + LOOK_COUNTS);
  return 1;
}

int
paths_is_real (const char *path)
{
  const char *rest;
  struct root *root = root_of (path, &rest);
  for (const char *at = path; *at != '\0'; at++)
    if (at[0] == '/' && (at[1] == '/' || at[1] == '\0' || (at[1] == '.' && (at[2] == '/' || at[2] == '\0'))))
      return 0;
  return root != NULL && root_is_real (root);
}

int
paths_stat (const char *path, struct statx *result)
{
  const int no_automount = 0x800, birth_too = 0x800;
  const size_t length = strlen (path);
  const uint64_t hash = hash_bytes (0, path, length);
  unsigned tried = 0;
  if (LOAD (is_forgetful))
    return 0;
  for (; tried < MEMO_TRIES; tried++)
    {
      const struct memo *memo = &memos[(hash + tried) % MEMOS];
      const uint32_t stage = LOAD (memo->stage);
      if (stage == 0)
        break;
      if (stage != 2 || memo->hash != hash || !text_equal (memo->path, path))
        continue;
      memcpy (result, &memo->found, sizeof *result);
      return 1;
    }
  if (system_call (NR_statx, AT_FDCWD, (long) path, no_automount, STATX_BASIC_STATS | birth_too,
                   (long) result)
          != 0
      || (result->mode & 0170000) != 0040000)
    return 0;
  for (; tried < MEMO_TRIES && length < sizeof memos->path; tried++)
    {
      struct memo *memo = &memos[(hash + tried) % MEMOS];
      uint32_t free = 0;
      if (!EXCHANGE (memo->stage, &free, 1))
        continue;
      memo->hash = hash;
      memcpy (memo->path, path, length + 1);
      memcpy (&memo->found, result, sizeof *result);
      STORE (memo->stage, 2);
      break;
    }
  return 1;
}

/* False if the process may create nothing in a directory. */
static int
may_write_in (const char *directory)
{
  const int write = 2, effective = 0x200;
  const long read_only = -30;
  long result = system_call (NR_faccessat2, AT_FDCWD, (long) directory, write, effective, 0);
  return result != EACCES_NEG && result != read_only && result != ENOENT_NEG;
}

/* Writes the directory that a path is relative to, with its slash; returns 0 if it is not known. */
static size_t
directory_path (int directory, char *to, size_t size)
{
  long length;
  if (directory == AT_FDCWD)
    length = system_call (NR_getcwd, (long) to, (long) size, 0, 0, 0) - 1;
  else
    {
      char link[16 + DIGITS_SIZE], digits[DIGITS_SIZE];
      concatenate (link, sizeof link, "/proc/self/fd/", digits_of ((unsigned) directory, digits), NULL);
      length = sys_readlink (link, to, size - 1);
    }
  if (length <= 0 || (size_t) length >= size - 1)
    return 0;
  to[length] = '/';
  return (size_t) length + 1;
}

/* True for an error of a lookup after which the call that follows fails in the same way. */
static int
is_refusal (long error)
{
  const long bad_descriptor = -9, too_long = -36, loop = -40;
  return error == ENOENT_NEG || error == ENOTDIR_NEG || error == bad_descriptor || error == EACCES_NEG
         || error == too_long || error == loop;
}

/* Returns a hash of device and inode of a directory; 0 if it cannot be looked at. */
static uint64_t
identity_of (int directory, const char *path, long *error)
{
  struct statx found;
  *error = system_call (NR_statx, directory, (long) path, EMPTY_PATH, STATX_BASIC_STATS,
                        (long) &found);
  uint64_t words[2] = { device_of (&found), found.ino };
  return *error == 0 ? hash_bytes (0, words, sizeof words) | 1 : 0;
}

/* Replaces the path of a directory in WHOLE, relative to DIRECTORY, by its real path with a slash, as
   the kernel follows links and "..". Returns the length, 0 if it is not known. */
static size_t
make_real (int directory, char *whole, size_t size, uint64_t *identity)
{
  const int path_cloexec = 010000000 | 02000000;
  long error;
  if (whole[0] == '\0')
    return directory_path (directory, whole, size);
  long fd = system_call (NR_openat, directory, (long) whole, path_cloexec, 0, 0);
  if (fd < 0)
    return 0;
  *identity = identity_of ((int) fd, "", &error);
  size_t length = directory_path ((int) fd, whole, size);
  sys_close ((int) fd);
  return length;
}

/* True if a store is at or below PATH. */
static int
has_root (const char *path, size_t length)
{
  for (uint32_t i = 0; i < root_count; i++)
    if (roots[i].length >= length && memcmp (roots[i].path, path, length) == 0
        && (roots[i].path[length] == '\0' || roots[i].path[length] == '/'))
      return 1;
  return 0;
}

void
paths_forget (void)
{
  STORE (is_forgetful, 1);
}

void
paths_written (int directory, const char *path, int moves)
{
  char whole[1024];
  const char *rest;
  long error;
  if (path == NULL || LOAD (is_off))
    return;
  size_t end = strlen (path), name;
  while (end > 0 && path[end - 1] == '/')
    end--;
  for (name = end; name > 0 && path[name - 1] != '/'; name--)
    ;
  /* Every call refuses to make, move or remove these. */
  if (end == name || name_is (path + name, end - name, ".") || name_is (path + name, end - name, ".."))
    return;
  if (name >= sizeof whole)
    {
      paths_off ();
      return;
    }
  memcpy (whole, path, name);
  whole[name] = '\0';
  uint64_t identity = identity_of (directory, whole, &error);
  if (is_refusal (error) || (identity != 0 && LOAD (outside[identity % OUTSIDE]) == identity))
    return;
  size_t parent = identity != 0 ? make_real (directory, whole, sizeof whole, &identity) : 0;
  if (parent == 0 || identity == 0 || whole[0] != '/' || parent + end - name >= sizeof whole)
    {
      paths_off ();
      return;
    }
  /* "/" is the only directory whose path ends with a slash. */
  parent -= parent == 2 && whole[1] == '/';
  whole[parent] = '\0';
  const int may_change = root_of (whole, &rest) == NULL || may_write_in (whole);
  memcpy (whole + parent, path + name, end - name);
  whole[parent + end - name] = '\0';
  if (!may_change)
    return;
  if (root_of (whole, &rest) != NULL)
    turn_off (whole);
  else if (has_root (whole, parent - 1))
    {
      if (moves && has_root (whole, parent + end - name))
        paths_off ();
    }
  else
    STORE (outside[identity % OUTSIDE], identity);
}

void
paths_created (int directory, const char *path)
{
  char ignored[8];
  struct statx found;
  if (path == NULL || LOAD (is_off))
    return;
  long linked = system_call (NR_readlinkat, directory, (long) path, (long) ignored, sizeof ignored, 0);
  /* What exists is not made. */
  if (linked == EINVAL_NEG)
    return;
  if (linked < 0)
    paths_written (directory, path, 0);
  /* A link to nothing: the file is made where it leads to. */
  else if (system_call (NR_statx, directory, (long) path, 0, 0, (long) &found) != 0)
    paths_off ();
}

#endif
