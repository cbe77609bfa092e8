/* Conditions: a directory or file that is still as it was indexed, a directory that still does
   not exist, the loader whose facts were used. Each costs one call in a batch of lookups
   (audit.c). */
#include "condition.h"
#include "cache.h"
#include "file_end.h"
#include "filter.h"
#include "process.h"
#include "system.h"
#include "volume.h"

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

static int
same_times (const struct table_condition *condition, const struct statx *now)
{
  return condition->ino == now->ino && condition->mtime_sec == now->mtime.sec
         && condition->mtime_nsec == now->mtime.nsec && condition->ctime_sec == now->ctime.sec
         && condition->ctime_nsec == now->ctime.nsec;
}

/* On another file system, or if times prove nothing there (volume 0), the names count. */
static int
same_directory (const struct table_condition *condition, const struct statx *now, const char *path)
{
  const uint16_t type = 0170000, directory = 0040000;
  if (condition->volume != 0 && condition->volume == volume_of (now, path))
    return same_times (condition, now);
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
  return now->uid == 0 && !(now->mode & others_write) && condition->mtime_sec == now->mtime.sec
         && condition->mtime_nsec == now->mtime.nsec
         && (condition->kind != CONDITION_IMAGE_FILE || condition->size == now->size);
}

static int
is_as_indexed (const struct table_condition *condition, const struct statx *now, const char *path)
{
  switch (condition->kind)
    {
    case CONDITION_DIRECTORY: case CONDITION_STORE_DIRECTORY: return same_directory (condition, now, path);
    case CONDITION_FILE:
      return condition->size == now->size && same_times (condition, now)
             && condition->volume == volume_of (now, path);
    case CONDITION_IMAGE_DIRECTORY: case CONDITION_IMAGE_FILE: return same_in_image (condition, now);
    default: return 0;
    }
}

/* True if the process's loader is in a list separated by `:`. */
static int
is_listed (const char *list)
{
  const char *loader = process_loader ();
  size_t length = strlen (loader), size;
  for (; *list != '\0' && length > 0; list += size + (list[size] == ':'))
    if ((size = length_to (list, ':')) == length && memcmp (list, loader, length) == 0)
      return 1;
  return 0;
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
    return is_listed (path) ? HOLDS_FOR_GOOD : FAILS;
  /* A missing package cannot have been added while its store is unchanged. */
  if (condition->kind == CONDITION_ABSENT_PACKAGE && roots_hold ())
    return HOLDS_FOR_GOOD;
  if (condition->kind == CONDITION_STORE_DIRECTORY && roots_hold ())
    return HOLDS;
  struct statx now;
  long result;
  if (!file_end_recall (path, &now, &result))
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

void
conditions_forget (void)
{
  for (uint32_t i = 0; i < remembered_count; i++)
    if (remembered[i] != HOLDS_FOR_GOOD)
      remembered[i] = 0;
  file_end_forget ();
  filter_forget ();
  volumes_forget ();
  roots_state = 0;
  conditions_used_listing = 0;
}

int
condition_is_of (uint32_t index, const char *path)
{
  const char *known;
  struct statx now;
  const struct table_condition *condition = table_record (SECTION_CONDITIONS, index, &known);
  return condition != NULL && sys_stat (path, &now) == 0 && is_as_indexed (condition, &now, path);
}

int
condition_same_size (uint32_t index, const char *path)
{
  const char *known;
  struct statx now;
  const struct table_condition *condition = table_record (SECTION_CONDITIONS, index, &known);
  return condition != NULL && condition->kind == CONDITION_FILE && sys_stat (path, &now) == 0
         && condition->size == now.size;
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
      size_t end = table_record (SECTION_CONDITIONS, ids[i], &root) != NULL ? strlen (root) : 0;
      while (end > 0 && root[end - 1] == '/')
        end--;
      if (end > 0 && length > end + 1 && memcmp (path, root, end) == 0 && path[end] == '/'
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
