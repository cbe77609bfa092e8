/* Every ldconfig makes the loader cache a new file, mostly with the same answers. So if its
   fingerprint differs, its contents are compared: an answer is valid if the name has exactly one
   plain entry of its kind, with the same path.

   The format is the new one (glibc elf/dl-cache.h, struct cache_file_new); a file that begins
   with the old format, as ldconfig wrote before 2.32, is not read. */
#include "cache.h"
#include "system.h"

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

static enum { UNREAD, READ, UNREADABLE } state STATE = UNREAD;
static const unsigned char *bytes STATE = NULL;
static uint64_t length STATE = 0;

static int
open_cache (const char *path)
{
  struct statx about;
  if (state != UNREAD)
    return state == READ;
  state = UNREADABLE;
  int fd = (int) sys_open (path, CLOSE_ON_EXEC, 0);
  if (fd < 0)
    return 0;
  if (sys_stat_open (fd, &about) == 0 && about.size >= sizeof (struct cache_header) && about.size < 64u << 20
      && (bytes = sys_map (fd, (size_t) about.size)) != NULL)
    length = about.size;
  sys_close (fd);
  const struct cache_header *header = (const struct cache_header *) bytes;
  if (bytes == NULL || memcmp (header->magic, "glibc-ld.so.cache1.1", 20) != 0
      || (uint64_t) header->count * sizeof (struct cache_entry) + sizeof *header > length)
    return 0;
  state = READ;
  return 1;
}

void
cache_forget (void)
{
  if (bytes != NULL)
    sys_unmap (bytes, (size_t) length);
  bytes = NULL;
  length = 0;
  state = UNREAD;
}

static int
is_string (uint32_t at, const char *text)
{
  for (; at < length; at++, text++)
    if (bytes[at] != (unsigned char) *text)
      return 0;
    else if (*text == '\0')
      return 1;
  return 0;
}

int
cache_still_says (const char *cache, const char *needed, const char *path)
{
  if (!open_cache (cache))
    return 0;
  const struct cache_header *header = (const struct cache_header *) bytes;
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
