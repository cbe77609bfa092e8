/* The table is shared memory: paths that earlier starts used, and for each the result of a call that
   the process that fills it has made since this program was started. An answer counts

   - if the call was made after this program was started, and for a few seconds after it, as long as a
     network's file system keeps attributes itself;
   - while an inotify(7) descriptor, which watches the directories of all paths since before the calls
     were made, has no event. The kernel queues an event before the call that changed a file returns,
     whichever process of this machine made it. So whoever has heard of a change finds it.

   The program's own changes are events as well. After the first event the kernel is asked about
   everything.

   `becalm run` leaves the descriptors open for its program. The programs that this one starts, and those
   that it becomes, ask the same process for descriptors, as `becalm run` did: each has a beginning of its
   own, and the table may be that of other processes too. */
#include "tree.h"
#include "hash.h"
#include "process.h"
#include "socket.h"

#if HAS_PATHS

#define MAGIC 0x32656572546d6c62u
/* The milliseconds for which an answer counts (acregmin of nfs(5)). */
#define LONGEST 3000u
/* The time of an answer that counts as long as there is the table. */
#define ALWAYS (UINT64_MAX >> 2)
#define MOST_BASES 16u
/* Recognizes the descriptor of the events: F_SETSIG. */
#define EVENTS_SIGNAL 63
#define NAMES_SEEN 512u

/* As crates/host/src/tree/table.rs writes them. */
struct header
{
  uint64_t magic, size;
  uint32_t is_taken, is_ready, is_off;
  uint32_t entries, slots, strings, log, log_size;
  uint32_t logs_all, count, holder, base_count;
  uint32_t bases[MOST_BASES];
  uint64_t log_used, asked;
  /* Of the process that fills it: when the last program was started, and how many there were. */
  uint64_t last_since, programs;
  uint64_t seen[NAMES_SEEN];
};

struct entry
{
  uint64_t hash;
  /* Of the strings. A copy or target that does not exist is 0. */
  uint32_t path, length, copy, target;
  /* The time of the call in milliseconds, and an enum tree_answer in the lowest two bits. */
  uint64_t state;
  uint64_t copy_dev, copy_ino;
  /* USED is the number of times that programs have asked for the path. DIRECTORY is the number of the holder's
     descriptor and one. LOADS is true if the loader may map the copy, and for a directory if the table has all
     names in it. */
  uint32_t used, is_mapped, loads, directory;
  struct statx found, followed;
};

struct slots
{
  /* The number of slots is a power of two; the first half is by path, the other by inode of the copy.
     Each is the entry's number and one. */
  uint32_t mask;
  uint32_t first[];
};

_Static_assert (sizeof (struct header) == 4256, "as becalm writes it");
_Static_assert (sizeof (struct entry) == 576, "as becalm writes it");

static struct header *head STATE = NULL;
static unsigned char is_off STATE = 0;
/* Whether descriptors of copies were opened, and whether a process has been made since. */
static enum { NONE, BEFORE_FORK, AFTER_FORK } has_copies_open STATE = NONE;
/* The number of descriptors that are looked at then. */
#define MOST_RESTORED 256
/* Plus one; 0 if there is none. */
static int table_fd STATE = 0, events_fd STATE = 0;
/* The beginning of this program, by the clock of the table. */
static uint64_t since STATE = 0;
/* Whether the table is filled from a pack alone. */
static unsigned char is_told STATE = 0;
/* The process that has mapped the table. */
static long owner STATE = 0;
/* The folder of the pack's directories, with the length of its path. */
#define LONGEST_FOLDER 1024u
static char folder[LONGEST_FOLDER] BUFFER = { 0 };
static size_t folder_length STATE = 0;
/* Paths outside the trees to which links in them lead, for the calls that use them. */
#define MOST_OUTSIDE 64u
#define LONGEST_OUTSIDE 1020u
static struct outside
{
  /* 0: free, 1: being written, 2: complete and never changed again. */
  uint32_t stage;
  char path[LONGEST_OUTSIDE];
} *outside STATE = NULL;

static struct entry *
entries (void)
{
  return (struct entry *) ((char *) head + head->entries);
}

static const char *
string_at (uint32_t offset)
{
  return (const char *) head + head->strings + offset;
}

static long
control (int fd, long command, long argument)
{
  return system_call (NR_fcntl, fd, command, argument, 0, 0);
}

static int
is_of_events (int fd)
{
  const long get_signal = 11;
  return control (fd, get_signal, 0) == EVENTS_SIGNAL;
}

static int
is_table (int fd)
{
  const long get_seals = 1034, shrink_and_grow = 6;
  uint64_t magic = 0;
  long seals = control (fd, get_seals, 0);
  return seals >= 0 && (seals & shrink_and_grow) == shrink_and_grow
         && system_call (NR_pread64, fd, (long) &magic, sizeof magic, 0, 0) == sizeof magic
         && magic == MAGIC;
}

/* Takes two descriptors, so that they are closed on execve. The second stays open, where programs do not
   count on numbers. */
static void
take (int given, int events)
{
  /* F_DUPFD_CLOEXEC, F_SETFD. */
  const long duplicate = 1030, set_flags = 2, close_on_exec = 1, high = 200;
  long moved = control (events, duplicate, high);
  control (given, set_flags, close_on_exec);
  if (moved >= 0)
    sys_close (events);
  else
    control (events, set_flags, close_on_exec);
  table_fd = given + 1;
  events_fd = (moved >= 0 ? (int) moved : events) + 1;
}

/* The name of a process whose tables are filled from a pack alone begins with this. */
#define OF_PACK "becalm-pack-"

/* What this program was started with. */
struct offer
{
  /* Two descriptors, a process, and its beginning. */
  uint64_t given, events, process, since;
  const char *name;
};

/* Reads the offer. Returns 0 if there is none. */
static int
read_offer (struct offer *offer)
{
  uint64_t numbers[4];
  const char *text = process.trees;
  if (text == NULL || !process.is_on || process_is_filtered ())
    return 0;
  for (unsigned i = 0; i < 4; i++)
    {
      numbers[i] = read_decimal (&text);
      if (*text++ != '/')
        return 0;
    }
  *offer = (struct offer) { numbers[0], numbers[1], numbers[2], numbers[3], text };
  return 1;
}

/* True if the descriptors of an offer are for this process, and no other module has taken them. */
static int
is_open (const struct offer *offer)
{
  const long get_flags = 1;
  return offer->process == (uint64_t) sys_getpid () && control ((int) offer->given, get_flags, 0) == 0
         && is_table ((int) offer->given) && is_of_events ((int) offer->events);
}

int
tree_is_of_pack (void)
{
  struct offer offer;
  return read_offer (&offer) && text_after (offer.name, OF_PACK) != NULL;
}

int
tree_is_told (void)
{
  return is_told && tree_init ();
}

/* Asks the process with this name for descriptors. */
static void
ask (const char *door)
{
  /* Milliseconds. Without a pack's table, a program would find nothing in a tree that is gone. */
  const int of_pack = 5000, of_tree = 20;
  /* The number of users that are not known in a namespace of users: several can have it. */
  const long unknown_user = 65534;
  const char *path = process.executable;
  int32_t pid;
  int descriptors[2];
  if (path == NULL || system_call (NR_geteuid, 0, 0, 0, 0, 0) == unknown_user)
    return;
  const int patience = is_told ? of_pack : of_tree;
  long fd = socket_connect (door, SOCKET_PACKETS, &pid);
  if (fd < 0)
    return;
  if (socket_send ((int) fd, path, strlen (path) + 1, -1)
      && socket_receive ((int) fd, patience, &since, sizeof since, descriptors))
    {
      if (is_table (descriptors[0]) && is_of_events (descriptors[1]))
        take (descriptors[0], descriptors[1]);
      else
        {
          sys_close (descriptors[0]);
          sys_close (descriptors[1]);
        }
    }
  sys_close ((int) fd);
}

void
tree_begin (void)
{
  struct offer offer;
  if (!read_offer (&offer))
    return;
  is_told = text_after (offer.name, OF_PACK) != NULL;
  if (is_open (&offer))
    {
      since = offer.since;
      take ((int) offer.given, (int) offer.events);
    }
  else
    ask (offer.name);
  /* Libraries are found in it. */
  if (is_told)
    tree_init ();
}

void
tree_settle (void)
{
  struct offer offer;
  if (table_fd == 0 && head == NULL && read_offer (&offer) && is_open (&offer))
    {
      sys_close ((int) offer.given);
      sys_close ((int) offer.events);
    }
  if (table_fd != 0)
    sys_close (table_fd - 1);
  if (events_fd != 0 && head == NULL)
    sys_close (events_fd - 1);
  table_fd = 0;
}

#define LINK_SIZE 64u

/* Writes the path of the directory that the process beside has open for an entry. */
static const char *
held_directory (const struct entry *entry, char link[LINK_SIZE])
{
  char of_number[DIGITS_SIZE], of_process[DIGITS_SIZE];
  concatenate (link, LINK_SIZE, "/proc/", digits_of (head->holder, of_process), "/fd/",
               digits_of (LOAD (entry->directory) - 1, of_number), NULL);
  return link;
}

/* Finds the folder of the pack by a directory in it. */
static void
find_folder (void)
{
  char link[LINK_SIZE];
  const struct entry *entry = entries (), *end = entry + head->count;
  while (entry != end && LOAD (entry->directory) == 0)
    entry++;
  if (entry == end)
    return;
  const long size = sys_readlink (held_directory (entry, link), folder, LONGEST_FOLDER);
  if (size > (long) entry->length && size < (long) LONGEST_FOLDER
      && memcmp (folder + size - entry->length, string_at (entry->path), entry->length) == 0)
    folder_length = (size_t) size - entry->length;
}

int
tree_init (void)
{
  const long read_write = 3, shared = 1;
  uint64_t size = 0;
  struct statx file;
  if (head != NULL)
    return 1;
  if (table_fd == 0 || events_fd == 0
      || system_call (NR_pread64, table_fd - 1, (long) &size, sizeof size,
                      offsetof (struct header, size), 0)
             != sizeof size
      || size < sizeof (struct header) || sys_stat_open (table_fd - 1, &file) != 0 || file.size < size)
    return 0;
  struct header *of = sys_map_as (size, read_write, shared, table_fd - 1);
  if (of == NULL || of->entries >= size || of->slots >= size || of->strings >= size || of->log >= size)
    return 0;
  head = of;
  STORE (head->is_taken, 1);
  owner = sys_getpid ();
  if (is_told)
    {
      outside = sys_allocate (MOST_OUTSIDE * sizeof *outside);
      find_folder ();
    }
  return 1;
}

uint32_t
tree_count (void)
{
  return head != NULL ? head->count : 0;
}

void
tree_off (void)
{
  STORE (is_off, 1);
}

static struct entry *
find_entry (const char *path, size_t length, uint64_t hash)
{
  const struct slots *slots = (const struct slots *) ((char *) head + head->slots);
  if (!LOAD (head->is_ready))
    return NULL;
  for (uint32_t at = (uint32_t) hash & slots->mask; slots->first[at] != 0; at = (at + 1) & slots->mask)
    {
      struct entry *entry = &entries ()[slots->first[at] - 1];
      if (entry->hash == hash && entry->length == length
          && memcmp (string_at (entry->path), path, length) == 0)
        return entry;
    }
  return NULL;
}

static struct entry *
entry_of (const char *path)
{
  size_t length = strlen (path);
  return find_entry (path, length, hash_bytes (0, path, length));
}

/* True if what is at PATH is in a tree. A tree itself is in another directory, of which nothing is known,
   unless its results are those of a pack. */
static int
is_below_a_base (const char *path)
{
  for (uint32_t i = 0; i < head->base_count && i < MOST_BASES; i++)
    {
      const char *rest = text_after (path, string_at (head->bases[i]));
      if (rest != NULL && *rest == '/')
        return 1;
      if (rest != NULL && *rest == '\0')
        {
          const struct entry *entry = entry_of (path);
          return entry != NULL && LOAD (entry->state) != TREE_UNKNOWN;
        }
    }
  return 0;
}

/* Tells the process that fills the table of a path that is not in it. WHAT is 'r' for a file that is
   read, 's' for another lookup. */
static void
tell (uint64_t hash, const char *path, size_t length, char what)
{
  uint64_t place = hash ^ (uint64_t) (unsigned char) what << 6;
  uint64_t bit = (uint64_t) 1 << (place & 63);
  if (length >= 4096
      || __atomic_fetch_or (&head->seen[place >> 6 & (NAMES_SEEN - 1)], bit, __ATOMIC_RELAXED) & bit)
    return;
  uint64_t at = __atomic_fetch_add (&head->log_used, length + 2, __ATOMIC_ACQ_REL);
  if (at + length + 2 > head->log_size)
    return;
  char *into = (char *) head + head->log + at;
  memcpy (into + 1, path, length + 1);
  STORE (*into, what);
}

/* An entry of which the result is that there is nothing. */
static struct entry missing STATE;

/* True if PATH is not there because it leads through a name that a directory of which all names are known does
   not have. */
static int
is_missing (const char *path, size_t length)
{
  while (length > 0)
    {
      while (length > 0 && path[--length] != '/')
        ;
      const struct entry *entry = find_entry (path, length, hash_bytes (0, path, length));
      if (entry == NULL)
        continue;
      const char *name = path + length + 1;
      const char *after = name + (name[0] == '.') + (name[0] == '.' && name[1] == '.');
      /* No empty name, and not dots alone. */
      return (LOAD (entry->state) & 3) == TREE_FOUND && (entry->found.mode & 0170000) == 0040000
             && LOAD (entry->loads) && *after != '/' && *after != '\0';
    }
  return 0;
}

/* A path without empty names and names of one dot. */
struct plain
{
  char buffer[1024];
  /* True if what is there has to be a directory. */
  int is_directory;
};

/* Returns such a path: PATH itself, or one in the buffer; PATH if it is too long for it. */
static const char *
plain_path (const char *path, struct plain *plain)
{
  const char *at = path, *end = path, *name;
  size_t length = 0, size;
  plain->is_directory = 0;
  while ((name = paths_next_name (&at, &size)) != NULL)
    {
      if (length + 1 + size >= sizeof plain->buffer)
        return path;
      plain->buffer[length] = '/';
      memcpy (plain->buffer + length + 1, name, size);
      length += 1 + size;
      end = at;
    }
  plain->buffer[length] = '\0';
  plain->is_directory = *end != '\0';
  return length > 0 ? plain->buffer : path;
}

/* Returns the entry of a path that is as plain_path returns it, and of a directory if IS_DIRECTORY; NULL if there is
   none, or all answers are disabled. */
static struct entry *
find_plain (const char *path, int is_directory, char what)
{
  if (path[0] != '/' || LOAD (head->is_off) || (!head->logs_all && !is_below_a_base (path)))
    return NULL;
  size_t length = strlen (path);
  uint64_t hash = hash_bytes (0, path, length);
  struct entry *found = find_entry (path, length, hash);
  if (found == NULL && is_missing (path, length))
    {
      found = &missing;
      STORE (missing.state, ALWAYS << 2 | TREE_ABSENT);
    }
  if (found != NULL)
    __atomic_fetch_add (&found->used, 1, __ATOMIC_RELAXED);
  if (found == NULL || (what == 'r' && found->copy == 0) || (what == 'm' && !found->is_mapped))
    tell (hash, path, length, what);
  /* The kernel says which error it is, and follows links. */
  if (found != NULL && is_directory && (found->found.mode & 0170000) != 0040000
      && (LOAD (found->state) & 3) != TREE_ABSENT)
    return NULL;
  return LOAD (is_off) ? NULL : found;
}

/* Threads may have small stacks: no caller has the buffer in its frame. */
static __attribute__ ((noinline)) struct entry *
find (const char *path, char what)
{
  struct plain plain;
  if (head == NULL || path == NULL || path[0] != '/')
    return NULL;
  path = plain_path (path, &plain);
  return find_plain (path, plain.is_directory, what);
}

/* True if nothing has changed since the table was filled. For the results of a pack no event counts. */
static int
nothing_happened (void)
{
  const long bytes_pending = 0x541b;
  int pending = 1;
  if (is_told)
    return 1;
  const int is_open = is_of_events (events_fd - 1);
  if (is_open
      && system_call (NR_ioctl, events_fd - 1, bytes_pending, (long) &pending, 0, 0) == 0
      && pending == 0)
    return 1;
  /* A child with this memory (vfork) may have closed its own descriptor. */
  if (is_open || sys_getpid () == owner)
    tree_off ();
  return 0;
}

/* Returns the state of the file that an entry is or, as a link, leads to. */
static const struct statx *
file_of (const struct entry *entry)
{
  return (entry->found.mode & 0170000) == 0120000 ? &entry->followed : &entry->found;
}

/* Copies what an entry has, of a link with FOLLOW what it leads to. Returns its state, 0 if it has none or is being
   written. */
static uint64_t
copy_entry (const struct entry *entry, int follow, struct statx *found)
{
  const uint64_t state = entry != NULL ? LOAD (entry->state) : 0;
  if (state == 0)
    return 0;
  memcpy (found, follow ? file_of (entry) : &entry->found, sizeof *found);
  __atomic_thread_fence (__ATOMIC_ACQUIRE);
  return LOAD (entry->state) == state ? state : 0;
}

/* Reads an entry, without the events. Returns TREE_UNKNOWN if it does not count, or is being written. */
static enum tree_answer
peek (const struct entry *entry, int follow, struct statx *found)
{
  const uint64_t state = copy_entry (entry, follow, found);
  const enum tree_answer kind = state & 3;
  /* The link leads nowhere, or was not followed. */
  if (kind == TREE_UNKNOWN || (kind != TREE_ABSENT && found->mode == 0))
    return TREE_UNKNOWN;
  const uint64_t found_at = state >> 2, time = found_at != ALWAYS ? clock_now () : ALWAYS;
  /* The clock is coarse, and another one in another namespace. */
  const uint64_t step = 20;
  const int is_late = time > found_at + LONGEST || time + step < found_at;
  return time == 0 || found_at < since || is_late ? TREE_UNKNOWN : kind;
}

static struct entry *find_real (const char *path, int follows);

/* Reads an entry that counts. */
static enum tree_answer
read_entry (const struct entry *entry, int follow, struct statx *found)
{
  enum tree_answer kind = peek (entry, follow, found);
  if (kind == TREE_UNKNOWN || !nothing_happened ())
    return TREE_UNKNOWN;
  __atomic_fetch_add (&head->asked, 1, __ATOMIC_RELAXED);
  return kind;
}

enum tree_answer
tree_stat (const char *path, int follow, struct statx *found)
{
  const enum tree_answer answer = read_entry (find_real (path, follow), follow, found);
  return answer == TREE_COPIED ? TREE_FOUND : answer;
}

enum tree_answer
tree_link (const char *path, const char **target)
{
  const struct entry *entry = find_real (path, 0);
  struct statx found;
  const enum tree_answer kind = read_entry (entry, 0, &found);
  const int is_link = kind >= TREE_FOUND && (found.mode & 0170000) == 0120000;
  *target = is_link ? string_at (entry->target) : NULL;
  return is_link && entry->target == 0 ? TREE_UNKNOWN : kind == TREE_COPIED ? TREE_FOUND : kind;
}

/* A path whose links are followed name by name: what is real of it, and the rest, at the end of a buffer. */
struct walk
{
  char real[1024], buffer[1024];
  size_t length;
  char *rest;
  unsigned links;
};

static void
cut_last (struct walk *walk)
{
  while (walk->length > 0 && walk->real[--walk->length] != '/')
    ;
}

/* Puts a link's target in the place of the last name. Returns 0 if it is too long, or there are many. */
static int
follow (struct walk *walk, const char *target, size_t size)
{
  const unsigned most_links = 16;
  if (size == 0 || size > (size_t) (walk->rest - walk->buffer) || ++walk->links > most_links)
    return 0;
  /* The rest is empty, or begins with a slash. */
  walk->rest -= size;
  memcpy (walk->rest, target, size);
  if (*target == '/')
    walk->length = 0;
  else
    cut_last (walk);
  walk->real[walk->length] = '\0';
  return 1;
}

/* Moves one name from REST to REAL. Returns 0 if REST has no name, or a name that only the kernel can follow. */
static int
step (struct walk *walk)
{
  char *name = walk->rest;
  while (*name == '/')
    name++;
  const size_t size = length_to (name, '/');
  const int is_here = size == 1 && *name == '.';
  if (size == 0 || walk->length + 1 + size >= sizeof walk->real)
    return 0;
  if (is_here || (size == 2 && name[0] == '.' && name[1] == '.'))
    {
      /* Only of what is in the table it is known that it is a directory. */
      if (!head->logs_all && !is_below_a_base (walk->real))
        return 0;
      if (!is_here)
        cut_last (walk);
    }
  else
    {
      walk->real[walk->length] = '/';
      memcpy (walk->real + walk->length + 1, name, size);
      walk->length += 1 + size;
    }
  walk->real[walk->length] = '\0';
  walk->rest = name + size;
  return 1;
}

/* Returns where a link leads, NULL if that is not known. */
static const char *
target_of (const struct entry *entry)
{
  return entry != NULL && (entry->found.mode & 0170000) == 0120000 && entry->target != 0 ? string_at (entry->target)
                                                                                         : NULL;
}

/* Follows the last name of REAL, which is in no tree, as follow_last does. */
static __attribute__ ((noinline)) int
follow_by_kernel (struct walk *walk)
{
  char target[512];
  long size = sys_readlink (walk->real, target, sizeof target);
  if (size < 0)
    return size == EINVAL_NEG ? 1 : -1;
  return size < (long) sizeof target && follow (walk, target, (size_t) size) ? 1 : -1;
}

/* Follows the last name of REAL if it is a link. Returns -1 if the kernel has to be asked for all of it, 0 if
   the table does not have the name. */
static int
follow_last (struct walk *walk)
{
  if (walk->length == 0)
    return 1;
  if (head->logs_all || is_below_a_base (walk->real))
    {
      const struct entry *entry = find_plain (walk->real, 0, 's');
      struct statx found;
      if (peek (entry, 0, &found) < TREE_FOUND)
        return 0;
      const unsigned kind = found.mode & 0170000;
      if (kind != 0120000)
        return kind == 0040000 || *walk->rest == '\0' ? 1 : -1;
      const char *leads = target_of (entry);
      return leads != NULL && follow (walk, leads, strlen (leads)) ? 1 : -1;
    }
  return follow_by_kernel (walk);
}

/* Begins with all of PATH in the rest. Returns 0 if it is too long. */
static int
begin (struct walk *walk, const char *path)
{
  const size_t size = strlen (path);
  if (size + 1 >= sizeof walk->buffer)
    return 0;
  walk->rest = walk->buffer + sizeof walk->buffer - size - 2;
  memcpy (walk->rest, path, size + 1);
  /* What a slash follows is a directory. */
  if (path[size - 1] == '/')
    memcpy (walk->rest + size, ".", 2);
  walk->length = walk->links = 0;
  walk->real[0] = '\0';
  return 1;
}

/* Follows links and `..` in a path by the table alone. Returns OTHERWISE if it does not know where the path leads. */
static __attribute__ ((noinline)) struct entry *
follow_known (const char *path, int follows, struct entry *otherwise)
{
  struct walk walk;
  if (!begin (&walk, path))
    return otherwise;
  while (*walk.rest != '\0')
    {
      if (!step (&walk))
        return otherwise;
      if (!follows && *walk.rest == '\0')
        break;
      if (!is_below_a_base (walk.real))
        continue;
      struct entry *at = find_plain (walk.real, 0, 's');
      /* What is not there is not below it either. */
      if (at != NULL && (LOAD (at->state) & 3) == TREE_ABSENT)
        return at;
      const char *leads = target_of (at);
      if (leads != NULL ? !follow (&walk, leads, strlen (leads))
                        : *walk.rest != '\0' && (at == NULL || (at->found.mode & 0170000) != 0040000))
        return otherwise;
    }
  struct entry *real = find_plain (walk.real, 0, 's');
  return real != NULL ? real : otherwise;
}

/* Finds an entry, for a program that is told also by links and `..` in the path. */
static struct entry *
find_real (const char *path, int follows)
{
  struct entry *entry = find (path, 's');
  const int is_link = entry != NULL && (entry->found.mode & 0170000) == 0120000;
  if (!is_told || head == NULL || path == NULL || path[0] != '/' || !is_below_a_base (path)
      || (entry != NULL && (!is_link || !follows || entry->copy != 0)))
    return entry;
  return follow_known (path, follows, entry);
}

const char *
tree_real (const char *path)
{
  struct walk walk;
  if (head == NULL || path == NULL || path[0] != '/' || LOAD (head->is_off)
      || (!head->logs_all && !is_below_a_base (path)) || !begin (&walk, path))
    return NULL;
  int is_known = 1;
  while (*walk.rest != '\0')
    {
      const int done = step (&walk) ? follow_last (&walk) : -1;
      if (done < 0)
        return NULL;
      /* Every name is told. */
      is_known &= done;
    }
  if (!is_known || !nothing_happened ())
    return NULL;
  __atomic_fetch_add (&head->asked, 1, __ATOMIC_RELAXED);
  if (text_equal (walk.real, path))
    return path;
  const struct entry *entry = find_plain (walk.real, 0, 's');
  return entry != NULL ? string_at (entry->path) : NULL;
}

/* Returns a copy of PATH that stays, NULL if there is no room. */
static const char *
keep_outside (const char *path)
{
  for (unsigned i = 0; i < MOST_OUTSIDE; i++)
    {
      struct outside *kept = &outside[i];
      uint32_t free = 0;
      if (LOAD (kept->stage) == 2 && text_equal (kept->path, path))
        return kept->path;
      if (!EXCHANGE (kept->stage, &free, 1))
        continue;
      memcpy (kept->path, path, strlen (path) + 1);
      STORE (kept->stage, 2);
      return kept->path;
    }
  return NULL;
}

const char *
tree_outside (const char *path, int follows)
{
  struct walk walk;
  if (outside == NULL || path == NULL || path[0] != '/' || LOAD (is_off) || LOAD (head->is_off)
      || !is_below_a_base (path) || !begin (&walk, path))
    return path;
  while (*walk.rest != '\0' && step (&walk))
    {
      const int is_last = *walk.rest == '\0';
      const struct entry *entry = !is_last || follows ? entry_of (walk.real) : NULL;
      /* The last one may have been packed as a file. */
      const int is_there = entry != NULL && (LOAD (entry->state) & 3) >= TREE_FOUND
                           && (!is_last || entry->copy == 0);
      const char *leads = is_there ? target_of (entry) : NULL;
      const size_t left = strlen (walk.rest) + 1;
      if (leads != NULL ? !follow (&walk, leads, strlen (leads)) : walk.length + left > LONGEST_OUTSIDE)
        return path;
      if (leads != NULL || walk.links == 0)
        continue;
      /* All of it, for a moment: threads may have small stacks. */
      memcpy (walk.real + walk.length, walk.rest, left);
      if (!is_below_a_base (walk.real))
        {
          const char *kept = keep_outside (walk.real);
          return kept != NULL ? kept : path;
        }
      walk.real[walk.length] = '\0';
    }
  return path;
}

int
tree_is_packed (const char *path)
{
  struct statx found;
  return is_told && peek (find_real (path, 1), 1, &found) == TREE_COPIED;
}

const char *
tree_place (const char *path)
{
  struct statx found;
  if (!is_told || head == NULL)
    return path;
  const char *real = tree_real (path);
  const struct entry *entry = find (real != NULL ? real : path, 's');
  const unsigned set_user_or_group = 06000;
  /* A copy has another owner. */
  return read_entry (entry, 1, &found) == TREE_COPIED && !(found.mode & set_user_or_group)
             ? string_at (entry->copy)
             : path;
}

/* True if a descriptor is open for a file. */
static int
is_open_at (int fd, uint64_t device, uint64_t inode)
{
  struct statx opened;
  return sys_stat_at (fd, "", EMPTY_PATH | DONT_SYNC, &opened) == 0 && opened.ino == inode
         && device_of (&opened) == device;
}

long
tree_open (const char *path, unsigned flags)
{
  const unsigned more = flags & ~TREE_PLAIN;
  const int may_be_directory = more == 0 || more == TREE_DIRECTORY;
  const struct entry *entry = find_real (path, 1);
  struct statx found;
  const enum tree_answer kind = read_entry (entry, more != TREE_DIRECTORY, &found);
  char link[LINK_SIZE];
  const char *from = NULL;
  uint64_t device, inode;
  if (kind == TREE_ABSENT)
    return TREE_NOT_THERE;
  if (more == 0 && (entry == NULL || entry->copy == 0))
    find (path, 'r');
  if (kind == TREE_COPIED && more == 0)
    {
      from = string_at (entry->copy);
      device = entry->copy_dev;
      inode = entry->copy_ino;
    }
  else if (kind == TREE_FOUND && may_be_directory && (found.mode & 0170000) == 0040000
           && LOAD (entry->directory) != 0)
    {
      from = held_directory (entry, link);
      device = device_of (&found);
      inode = found.ino;
    }
  const long fd = from != NULL ? sys_open (from, (int) flags, 0) : -1;
  if (fd < 0)
    return -1;
  /* The copy may have been removed, the process may have ended. */
  if (is_open_at ((int) fd, device, inode))
    {
      /* By a directory of a pack, the program opens copies. */
      if (kind == TREE_COPIED || is_told)
        STORE (has_copies_open, BEFORE_FORK);
      return fd;
    }
  sys_close ((int) fd);
  return -1;
}

/* Reads the stat of a file that has a copy open, however old it is. Returns 0 if the file has changed since:
   then the state is that of another content. */
static int
read_original (const struct entry *entry, struct statx *found)
{
  /* The entry may be being written, which takes no time. */
  const unsigned patience = 1000;
  uint64_t state = 0;
  for (unsigned i = 0; i < patience && state == 0; i++)
    state = copy_entry (entry, 1, found);
  return (state & 3) == TREE_COPIED;
}

/* Returns the entry of which a descriptor is open for the copy. */
static const struct entry *
entry_of_copy (int fd)
{
  struct statx copy;
  if (head == NULL || !LOAD (has_copies_open) || sys_stat_open (fd, &copy) != 0)
    return NULL;
  const struct slots *slots = (const struct slots *) ((char *) head + head->slots);
  const uint32_t *by_inode = slots->first + slots->mask + 1;
  uint64_t device = device_of (&copy);
  for (uint32_t at = (uint32_t) copy.ino & slots->mask, number; (number = LOAD (by_inode[at])) != 0;
       at = (at + 1) & slots->mask)
    {
      const struct entry *entry = &entries ()[number - 1];
      if (entry->copy_ino == copy.ino && entry->copy_dev == device)
        return entry;
    }
  return NULL;
}

int
tree_stat_open (int fd, struct statx *found)
{
  const struct entry *entry = entry_of_copy (fd);
  return entry != NULL && read_original (entry, found);
}

/* Opens a path at a descriptor, with its flags; if FILE is not NULL, only that file, at the same offset. Returns 1
   if this is done. */
static int
reopen (int fd, const char *path, const struct statx *file)
{
  const long get_close_on_exec = 1, get_flags = 3, from_begin = 0, from_here = 1;
  long done = -1, own = sys_open (path, (int) control (fd, get_flags, 0) | CLOSE_ON_EXEC, 0);
  if (own < 0)
    return 0;
  const long flags = control (fd, get_close_on_exec, 0) != 0 ? CLOSE_ON_EXEC : 0;
  const long offset = file != NULL ? system_call (NR_lseek, fd, 0, from_here, 0, 0) : 0;
  if (file == NULL
      || (is_open_at ((int) own, device_of (file), file->ino)
          && system_call (NR_lseek, own, offset, from_begin, 0, 0) == offset))
    done = system_call (NR_dup3, own, fd, flags, 0, 0);
  sys_close ((int) own);
  return done == fd;
}

void
tree_restore (int fd)
{
  const struct entry *entry = entry_of_copy (fd);
  /* Unless another file has its path now. */
  if (entry != NULL)
    reopen (fd, string_at (entry->path), file_of (entry));
}

/* Opens the tree's directory at a descriptor of the pack's. Returns 0 if it cannot be opened. */
static __attribute__ ((noinline)) int
restore_directory (int fd)
{
  char digits[DIGITS_SIZE], link[LINK_SIZE], path[LONGEST_FOLDER];
  concatenate (link, sizeof link, "/proc/self/fd/", digits_of ((unsigned) fd, digits), NULL);
  const long size = sys_readlink (link, path, sizeof path);
  if (folder_length == 0 || size <= (long) folder_length || memcmp (path, folder, folder_length) != 0
      || path[folder_length] != '/')
    return 1;
  if (size == sizeof path)
    return 0;
  path[size] = '\0';
  return reopen (fd, path + folder_length, NULL);
}

int
tree_leave_pack (int fd)
{
  tree_restore (fd);
  return fd < 0 || (entry_of_copy (fd) == NULL && restore_directory (fd));
}

void
tree_restore_all (void)
{
  if (LOAD (has_copies_open) != BEFORE_FORK)
    return;
  STORE (has_copies_open, AFTER_FORK);
  for (int fd = 0; fd < MOST_RESTORED; fd++)
    {
      const struct entry *entry = entry_of_copy (fd);
      /* The tree of a pack may be gone. */
      if (entry != NULL && LOAD (entry->state) >> 2 != ALWAYS)
        reopen (fd, string_at (entry->path), file_of (entry));
    }
}

/* The objects that the loader has mapped: from copies, or files themselves. The loader calls the functions
   below with its lock. Each file must be mapped once, whatever its name; while a copy is mapped, it is the
   file. */
#define MOST_LOADED 1024u
static struct loaded
{
  /* NULL for an object of the start, which is not closed. */
  const uintptr_t *cookie;
  const struct link_map *map;
  const struct entry *entry;
  /* Of the file. An inode of 0 is not known yet. */
  uint64_t device, inode;
} *loaded STATE = NULL;
static unsigned loaded_count STATE = 0, copies_loaded STATE = 0;
static unsigned char has_no_room STATE = 0, knows_start STATE = 0;
/* The copy that the loader is about to map. */
static struct loaded next STATE = { NULL, NULL, NULL, 0, 0 };

static void
add_loaded (const struct loaded *object)
{
  if (loaded == NULL)
    loaded = sys_allocate (MOST_LOADED * sizeof *loaded);
  if (loaded == NULL || loaded_count == MOST_LOADED)
    has_no_room = 1;
  else
    loaded[loaded_count++] = *object;
}

void
tree_opened (const struct link_map *map, const uintptr_t *cookie)
{
  if (head == NULL || map->name == NULL)
    return;
  if (next.entry != NULL && text_equal (map->name, string_at (next.entry->copy)))
    {
      next.map = map;
      next.cookie = cookie;
      add_loaded (&next);
      copies_loaded++;
    }
  else
    {
      const struct loaded file = { cookie, map, NULL, 0, 0 };
      find (map->name, 'm');
      add_loaded (&file);
    }
  next.entry = NULL;
}

void
tree_closed (const uintptr_t *cookie)
{
  for (unsigned i = 0; i < loaded_count; i++)
    if (loaded[i].cookie == cookie)
      {
        copies_loaded -= loaded[i].entry != NULL;
        loaded[i] = loaded[--loaded_count];
        return;
      }
}

/* Returns the entry of an object by the path that the loader has for it. If the program is told, links and `..` in
   the path are followed first, without the tree. */
static struct entry *
entry_of_object (const char *path)
{
  const char *real = is_told ? tree_real (path) : NULL;
  return entry_of (real != NULL ? real : path);
}

static int
has_answers (void)
{
  return !LOAD (is_off) && !LOAD (head->is_off);
}

/* Returns 1 with the stat of a file: from its entry, if there is one, or from the kernel. */
static int
stat_file (const char *path, const struct entry *entry, struct statx *found)
{
  return (has_answers () && read_entry (entry, 1, found) >= TREE_FOUND) || sys_stat (path, found) == 0;
}

/* Finds out device and inode of the files that are mapped themselves. */
static void
know_files (const struct link_map *program)
{
  if (!knows_start)
    for (const struct link_map *map = program; map != NULL; map = map->next)
      {
        const struct loaded file = { NULL, map, NULL, 0, 0 };
        unsigned i = 0;
        while (i < loaded_count && loaded[i].map != map)
          i++;
        if (i == loaded_count)
          add_loaded (&file);
      }
  knows_start = 1;
  for (unsigned i = 0; i < loaded_count; i++)
    {
      struct statx found;
      struct loaded *file = &loaded[i];
      if (file->inode != 0 || file->map == NULL)
        continue;
      const char *path = file->map->name;
      if (path == NULL || path[0] != '/' || !is_below_a_base (path))
        file->map = NULL;
      else if (stat_file (path, entry_of_object (path), &found))
        {
          file->device = device_of (&found);
          file->inode = found.ino;
        }
    }
}

static const struct loaded *
find_loaded (uint64_t device, uint64_t inode)
{
  for (unsigned i = 0; i < loaded_count; i++)
    if (loaded[i].inode == inode && loaded[i].device == device)
      return &loaded[i];
  return NULL;
}

const char *
tree_library (const char *path, const struct link_map *program)
{
  struct statx found;
  next.entry = NULL;
  if (head == NULL || path[0] != '/')
    return path;
  struct entry *entry = entry_of_object (path);
  for (unsigned i = 0; i < loaded_count && copies_loaded > 0; i++)
    if (loaded[i].entry != NULL)
      {
        if (loaded[i].entry == entry)
          return string_at (entry->copy);
      }
    else if (loaded[i].map != NULL && loaded[i].map->name != NULL
             && text_equal (loaded[i].map->name, path))
      return path;
  if (copies_loaded > 0 && is_below_a_base (path) && stat_file (path, entry, &found))
    {
      const struct loaded *same = find_loaded (device_of (&found), found.ino);
      if (same != NULL && same->entry != NULL)
        return string_at (same->entry->copy);
    }
  struct statx copy;
  if (entry == NULL || !LOAD (entry->loads) || !has_answers () || read_entry (entry, 1, &found) != TREE_COPIED
      || sys_stat (string_at (entry->copy), &copy) != 0 || copy.ino != entry->copy_ino)
    return path;
  know_files (program);
  if (has_no_room || loaded_count == MOST_LOADED
      || find_loaded (device_of (&found), found.ino) != NULL)
    return path;
  __atomic_fetch_add (&entry->used, 1, __ATOMIC_RELAXED);
  next = (struct loaded) { NULL, NULL, entry, device_of (&found), found.ino };
  return string_at (entry->copy);
}

#endif
