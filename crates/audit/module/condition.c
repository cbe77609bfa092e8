/* Conditions: a directory or file that is still as it was indexed, a directory that still does
   not exist, the loader whose facts were used. Each costs one call in a batch of lookups
   (audit.c). */
#include "condition.h"
#include "process.h"
#include "volume.h"
#include "whole.h"

/* Of a condition: 0 if it was not checked, does not hold, holds, holds for good. Conditions beyond
   these are checked each time they are needed. */
#define REMEMBERED 4096u
#define FAILS 1u
#define HOLDS 2u
#define HOLDS_FOR_GOOD 3u
static unsigned char remembered[REMEMBERED] STATE = { 0 };
/* The number of those that may be nonzero. */
static uint32_t remembered_count STATE = 0;

static unsigned char roots_state STATE = 0;
unsigned char conditions_used_listing STATE = 0;

int
same_times (const struct table_times *times, const struct statx *now)
{
  return times->mtime_sec == now->mtime.sec && times->mtime_nsec == now->mtime.nsec
         && times->ctime_sec == now->ctime.sec && times->ctime_nsec == now->ctime.nsec;
}

/* On another file system, or if times prove nothing there (volume 0), the names count. */
static int
same_directory (const struct table_condition *condition, const struct statx *now, const char *path)
{
  const uint16_t type = 0170000, directory = 0040000;
  if (condition->volume != 0 && condition->volume == volume_of (now, path))
    return condition->ino == now->ino && same_times (&condition->times, now);
  if (condition->size == 0 || (now->mode & type) != directory
      || listing_of (path) != condition->size)
    return 0;
  conditions_used_listing = 1;
  return 1;
}

/* Each copy of an image has its own device, inodes and times of status change. */
static int
same_in_image (const struct table_condition *condition, const struct statx *now)
{
  const uint16_t others_write = 022;
  return now->uid == 0 && !(now->mode & others_write) && condition->times.mtime_sec == now->mtime.sec
         && condition->times.mtime_nsec == now->mtime.nsec
         && (condition->kind != CONDITION_IMAGE_FILE || condition->size == now->size);
}

static int
is_as_indexed (const struct table_condition *condition, const struct statx *now, const char *path)
{
  switch (condition->kind)
    {
    case CONDITION_DIRECTORY: case CONDITION_STORE_DIRECTORY: return same_directory (condition, now, path);
    case CONDITION_FILE:
      return condition->size == now->size && condition->ino == now->ino && same_times (&condition->times, now)
             && condition->volume == volume_of (now, path);
    case CONDITION_IMAGE_DIRECTORY: case CONDITION_IMAGE_FILE: return same_in_image (condition, now);
    default: return 0;
    }
}

/* A directory that does not exist when the search first reaches it is skipped for the rest of
   the process (open_path of glibc elf/dl-load.c). */
static unsigned char
look (uint32_t index)
{
  const char *path;
  const struct table_condition *condition = table_record (SECTION_CONDITIONS, index, &path);
  if (condition == NULL)
    return FAILS;
  if (condition->kind == CONDITION_LOADER)
    return process_loader_is_in (path) ? HOLDS_FOR_GOOD : FAILS;
  /* A missing package cannot have been added while its store is unchanged. */
  if (condition->kind == CONDITION_ABSENT_PACKAGE && roots_hold ())
    return HOLDS_FOR_GOOD;
  if (condition->kind == CONDITION_STORE_DIRECTORY && roots_hold ())
    return HOLDS;
  struct statx now = first_root.found;
  long result = first_root.result;
  if (first_root.path == NULL || !text_equal (path, first_root.path))
    result = sys_stat (path, &now);
  if (condition->kind == CONDITION_ABSENT || condition->kind == CONDITION_ABSENT_PACKAGE)
    return result == ENOENT_NEG ? HOLDS_FOR_GOOD : FAILS;
  return result == 0 && is_as_indexed (condition, &now, path) ? HOLDS : FAILS;
}

int
condition_holds (uint32_t index)
{
  if (index >= REMEMBERED)
    return look (index) != FAILS;
  if (remembered[index] == 0)
    remembered[index] = look (index);
  if (remembered_count <= index)
    remembered_count = index + 1;
  return remembered[index] != FAILS;
}

/* Every ldconfig makes the loader cache a new file, mostly with the same answers. So if its
   fingerprint differs, its contents are compared: an answer is valid if the name has exactly one
   plain entry of its kind, with the same path.

   The format is the new one (glibc elf/dl-cache.h, struct cache_file_new); a file that begins
   with the old format, as ldconfig wrote before 2.32, is not read. */
struct cache_header
{
  char magic[20];
  uint32_t count, strings_length;
  unsigned char flags, pad[3];
  uint32_t extension, unused[3];
};

struct cache_entry
{
  int32_t flags;
  uint32_t key, value, os_version;
  uint32_t hwcap[2];
};

static enum { UNREAD, READ, UNREADABLE } cache_state STATE = UNREAD;
static const unsigned char *cache STATE = NULL;
static uint64_t cache_length STATE = 0;

static int
open_cache (const char *path)
{
  struct statx about;
  if (cache_state != UNREAD)
    return cache_state == READ;
  cache_state = UNREADABLE;
  int fd = (int) sys_open (path, CLOSE_ON_EXEC, 0);
  if (fd < 0)
    return 0;
  if (sys_stat_open (fd, &about) == 0 && about.size >= sizeof (struct cache_header) && about.size < 64u << 20
      && (cache = sys_map (fd, (size_t) about.size)) != NULL)
    cache_length = about.size;
  sys_close (fd);
  const struct cache_header *header = (const struct cache_header *) cache;
  if (cache == NULL || memcmp (header->magic, "glibc-ld.so.cache1.1", 20) != 0
      || (uint64_t) header->count * sizeof (struct cache_entry) + sizeof *header > cache_length)
    return 0;
  cache_state = READ;
  return 1;
}

static int
is_string (uint32_t at, const char *text)
{
  for (; at < cache_length; at++, text++)
    if (cache[at] != (unsigned char) *text)
      return 0;
    else if (*text == '\0')
      return 1;
  return 0;
}

/* True if the cache still gives that path, and no other, for a needed string. */
static int
cache_still_says (const char *file, const char *needed, const char *path)
{
  if (!open_cache (file))
    return 0;
  const struct cache_header *header = (const struct cache_header *) cache;
  const struct cache_entry *entries = (const struct cache_entry *) (header + 1), *ours = NULL;
  for (uint32_t i = 0; i < header->count; i++)
    if (is_string (entries[i].key, needed) && is_string (entries[i].value, path))
      ours = &entries[i];
  for (uint32_t i = 0; ours != NULL && i < header->count; i++)
    if (&entries[i] != ours && entries[i].flags == ours->flags
        && is_string (entries[i].key, needed))
      return 0;
  return ours != NULL && ours->hwcap[0] == 0 && ours->hwcap[1] == 0;
}

void
conditions_forget (void)
{
  for (uint32_t i = 0; i < remembered_count; i++)
    if (remembered[i] != HOLDS_FOR_GOOD)
      remembered[i] = 0;
  /* As the loader does at the end of a start and of each dlopen. */
  if (cache != NULL)
    sys_unmap (cache, (size_t) cache_length);
  cache = NULL;
  cache_state = UNREAD;
  first_root.path = NULL;
  filter_forget ();
  volumes_forget ();
  roots_state = 0;
  conditions_used_listing = 0;
}

enum likeness
condition_compare (uint32_t index, const char *path)
{
  const char *known;
  struct statx now;
  const struct table_condition *condition = table_record (SECTION_CONDITIONS, index, &known);
  if (condition == NULL || sys_stat (path, &now) != 0)
    return OTHER_FILE;
  if (is_as_indexed (condition, &now, path))
    return SAME_FILE;
  return condition->kind == CONDITION_FILE && condition->size == now.size ? SAME_SIZE : OTHER_FILE;
}

enum store_answer
conditions_up_to (uint32_t set, const char *path)
{
  uint32_t count;
  const uint32_t *ids = table_set (set, &count);
  if (ids == NULL)
    return STORE_CHANGED;
  for (uint32_t i = 0; i < count; i++)
    {
      const char *directory;
      if (!condition_holds (ids[i]))
        return STORE_CHANGED;
      table_record (SECTION_CONDITIONS, ids[i], &directory);
      size_t length = strlen (directory);
      if (strlen (path) > length && memcmp (path, directory, length) == 0 && path[length] == '/'
          && !has_byte (path + length + 1, '/'))
        return STORE_HAS_IT;
    }
  return STORE_LACKS_IT;
}

int
conditions_hold (uint32_t set, const char *needed, const char *path)
{
  uint32_t count;
  const uint32_t *ids = table_set (set, &count);
  if (ids == NULL)
    return 0;
  for (uint32_t i = 0; i < count; i++)
    if (!condition_holds (ids[i]))
      {
        /* A rewritten loader cache may have the same answers. */
        const char *file;
        const struct table_condition *condition = table_record (SECTION_CONDITIONS, ids[i], &file);
        if (needed == NULL || condition == NULL
            || (condition->kind != CONDITION_FILE && condition->kind != CONDITION_IMAGE_FILE)
            || !cache_still_says (file, needed, path))
          return 0;
      }
  return 1;
}

/* True if a component of a path is "." or "..". */
static int
has_dots (const char *path, size_t length)
{
  for (size_t i = 0; i < length; i++)
    if (path[i] == '.' && (i == 0 || path[i - 1] == '/')
        && (i + 1 == length || path[i + 1] == '/'
            || (path[i + 1] == '.' && (i + 2 == length || path[i + 2] == '/'))))
      return 1;
  return 0;
}

int
roots_contain (const char *path, size_t length)
{
  uint32_t count;
  const uint32_t *ids = table_set (table_header->roots, &count);
  for (uint32_t i = 0; ids != NULL && i < count; i++)
    {
      const char *root;
      const int is_known = table_record (SECTION_CONDITIONS, ids[i], &root) != NULL;
      const size_t end = is_known ? without_slashes (root, strlen (root)) : 0;
      if (end > 1 && length > end + 1 && memcmp (path, root, end) == 0 && path[end] == '/'
          && path[end + 1] != '/' && !has_dots (path + end, length - end))
        return 1;
    }
  return 0;
}

int
roots_hold (void)
{
  if (roots_state == 0)
    {
      /* Not while the roots themselves are checked, whatever the result. */
      roots_state = 2;
      roots_state = conditions_hold (table_header->roots, NULL, NULL) ? 1 : 2;
    }
  return roots_state == 1;
}
