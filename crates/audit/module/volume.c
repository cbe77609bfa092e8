/* The same numbers as in crates/core/src/index/volume.rs. */
#include "volume.h"
#include "hash.h"
#include "process.h"

#define OVERLAY 0x794c7630u
#define LOOP_MAJOR 7u
#define READ_ONLY 1u

/* The property that identifies a file system besides its type. */
enum identified_by
{
  BY_MOUNT = 1,
  BY_BACKING_FILE = 2,
  BY_FSID = 3,
  BY_BLOCKS = 4,
  BY_TYPE = 5,
  BY_NOTHING = 6,
};

static enum identified_by
identified_by (uint32_t type, uint64_t fsid, const struct statfs *facts, const struct statx *found)
{
  static const uint32_t images[] = { 0x73717368, 0xe0f5e1e2, 0x28cd3d45, 0x9660, 0x7275 };
  uint32_t major = found->dev_major, minor = found->dev_minor;
  int is_image = 0;
  for (size_t i = 0; i < sizeof images / sizeof *images; i++)
    is_image |= type == images[i];
  if (type == OVERLAY)
    return BY_MOUNT;
  if (major == LOOP_MAJOR && (is_image || facts->flags & READ_ONLY))
    return BY_BACKING_FILE;
  if (is_image)
    return BY_NOTHING;
  /* huge_encode_dev of Linux include/linux/kdev_t.h. */
  if (fsid != 0 && fsid != ((minor & 0xff) | major << 8 | (minor & ~0xffu) << 12))
    return BY_FSID;
  return major != 0 ? BY_BLOCKS : BY_TYPE;
}

/* Reads a short file without the white space at its end; returns its length, 0 if that fails. */
static size_t
read_line (const char *path, char *line, size_t size)
{
  long length = sys_read_file (path, line, size - 1);
  if (length <= 0 || (size_t) length >= size - 1)
    return 0;
  while (length > 0 && line[length - 1] <= ' ')
    length--;
  line[length] = '\0';
  return (size_t) length;
}

static size_t
mount_words (const char *path, uint64_t *words)
{
  char boot[64];
  struct statx mount;
  if (process_is_filtered ()
      || system_call (NR_statx, AT_FDCWD, (long) path, 0, STATX_MNT_ID_UNIQUE, (long) &mount)
             != 0
      || !(mount.mask & STATX_MNT_ID_UNIQUE))
    return 0;
  size_t length = read_line ("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
  words[0] = mount.spare[0];
  words[1] = hash_bytes (0, boot, length);
  return length > 0 ? 2 : 0;
}

static size_t
backing_words (const struct statx *found, uint64_t *words)
{
  char link[64], digits[DIGITS_SIZE], name[512];
  struct statx file;
  concatenate (link, sizeof link, "/sys/dev/block/7:", digits_of (found->dev_minor, digits),
               "/loop/backing_file", NULL);
  if (read_line (link, name, sizeof name) == 0 || sys_stat (name, &file) != 0)
    return 0;
  words[0] = file.ino, words[1] = file.size;
  words[2] = (uint64_t) file.mtime.sec, words[3] = file.mtime.nsec;
  words[4] = (uint64_t) file.ctime.sec, words[5] = file.ctime.nsec;
  return 6;
}

/* The first three words of a number are always there. */
#define MOST_WORDS 9

uint64_t
volume_now (const struct statx *found, const char *path, int *is_passing)
{
  struct statfs facts;
  uint64_t words[MOST_WORDS];
  size_t own = 0;
#ifdef NR_statfs64
  const long size = 84;
  if (system_call (NR_statfs64, (long) path, size, (long) &facts, 0, 0) != 0)
    return 0;
#else
  if (system_call (NR_statfs, (long) path, (long) &facts, 0, 0, 0) != 0)
    return 0;
#endif
  uint64_t fsid = (uint64_t) facts.fsid[1] << 32 | facts.fsid[0];
  enum identified_by by = identified_by ((uint32_t) facts.type, fsid, &facts, found);
  if (by == BY_MOUNT)
    own = mount_words (path, words + 3);
  else if (by == BY_BACKING_FILE)
    own = backing_words (found, words + 3);
  *is_passing = by == BY_MOUNT || by == BY_BACKING_FILE || by == BY_NOTHING;
  words[0] = (uint32_t) facts.type;
  words[1] = by;
  words[2] = by == BY_FSID ? fsid : by == BY_BLOCKS || by == BY_NOTHING ? facts.blocks : 0;
  uint64_t number = hash_words (2, words, 3 + own);
  return number != 0 ? number : 1;
}

/* The file systems of a batch, by device; another one may be mounted there later. */
static struct
{
  uint32_t major, minor;
  uint64_t number;
  int is_passing;
} known[8] STATE = { { 0, 0, 0, 0 } };
static unsigned known_count STATE = 0;

uint64_t
volume_of (const struct statx *found, const char *path)
{
  for (unsigned i = 0; i < known_count; i++)
    if (known[i].major == found->dev_major && known[i].minor == found->dev_minor)
      return known[i].number;
  int is_passing = 1;
  uint64_t number = volume_now (found, path, &is_passing);
  if (known_count < sizeof known / sizeof *known)
    {
      known[known_count].major = found->dev_major;
      known[known_count].minor = found->dev_minor;
      known[known_count].is_passing = is_passing;
      known[known_count++].number = number;
    }
  return number;
}

void
volumes_forget (void)
{
  unsigned kept = 0;
  for (unsigned i = 0; i < known_count; i++)
    if (!known[i].is_passing)
      known[kept++] = known[i];
  known_count = kept;
}

#define MOST_NAMES 65536u
static char entries[4096] __attribute__ ((aligned (8))) BUFFER = { 0 };

uint64_t
listing_of (const char *path)
{
  /* struct linux_dirent64 (getdents(2)): the length of an entry, and its name. */
  const size_t length_at = 16, name_at = 19;
  uint64_t words[2] = { 0, 0 };
  long count = -1, fd;
  if (process_is_filtered ())
    return 0;
  fd = sys_open (path, CLOSE_ON_EXEC | NONBLOCK, 0);
  if (fd < 0)
    return 0;
  while (words[1] <= MOST_NAMES
         && (count = system_call (NR_getdents64, fd, (long) entries, sizeof entries, 0, 0)) > 0)
    for (size_t at = 0; at + name_at < (size_t) count;)
      {
        uint16_t length;
        const char *name = entries + at + name_at;
        memcpy (&length, entries + at + length_at, sizeof length);
        at += length;
        if (text_equal (name, ".") || text_equal (name, ".."))
          continue;
        words[0] += hash_bytes (3, name, strlen (name));
        words[1]++;
      }
  sys_close ((int) fd);
  if (count != 0 || words[1] > MOST_NAMES)
    return 0;
  uint64_t hash = hash_words (4, words, 2);
  return hash != 0 ? hash : 1;
}
