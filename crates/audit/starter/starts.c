/* Reads the file of starts, and nothing of it that is not checked. */
#include "starts.h"
#include "hash.h"

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

int
is_own (const struct statx *found, uint32_t user)
{
  const uint32_t writable = 022;
  return (found->uid == 0 || found->uid == user) && (found->mode & writable) == 0;
}

long
open_own (const char *path, uint32_t user, size_t *size)
{
  struct statx found;
  const long fd = sys_open (path, CLOSE_ON_EXEC | NONBLOCK, 0);
  if (fd < 0)
    return fd;
  if (sys_stat_open ((int) fd, &found) == 0 && (found.mode & 0170000) == 0100000
      && is_own (&found, user))
    {
      *size = (size_t) found.size;
      return fd;
    }
  sys_close ((int) fd);
  return -1;
}

const struct starts *
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

const struct start *
starts_find (const struct starts *starts, const char *name)
{
  for (uint32_t i = 0; i < starts->count; i++)
    if (text_equal ((const char *) starts + starts->start[i].name, name))
      return starts->start + i;
  return NULL;
}

int
identity_is (const struct identity *identity, const struct statx *found)
{
  return identity->inode == found->ino && identity->size == found->size
         && identity->seconds == (uint64_t) found->mtime.sec
         && identity->nanoseconds == found->mtime.nsec;
}
