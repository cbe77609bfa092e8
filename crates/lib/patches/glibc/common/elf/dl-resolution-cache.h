/* The loader caches of packages.
   SPDX-License-Identifier: LGPL-2.1-or-later

   Part of dl-cache.c.  A package's etc/ld.so.cache is read by the functions
   above, with all their checks, after putting it in the place of the
   system's.  A package lies in a store, whose files are never rewritten, so
   its cache is mapped once and stays.  */

#include <dl-resolution.h>
#include <fcntl.h>
#include <not-cancel.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* One package that was asked for, whether it has a cache or not.  Kept for
   good like the directories of search paths, and like those allocated when
   it is first met.  */
struct package_cache
{
  struct package_cache *next;
  struct cache_file *cache;		/* As the variables of that name.  */
  struct cache_file_new *cache_new;
  size_t cachesize;
  size_t root;				/* Length of the root in FILE.  */
  char file[];
};
static struct package_cache *package_caches;

/* Map FILE, a package's cache.  As _dl_sysdep_read_whole_file, but for what
   is no regular file, and for one whose last string may lack its end.  */
static void *
package_cache_map (const char *file, size_t *sizep, int prot)
{
  void *result = MAP_FAILED;
  struct __stat64_t64 st;
  int fd = __open64_nocancel (file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return MAP_FAILED;
  if (__fstat64_time64 (fd, &st) == 0 && S_ISREG (st.st_mode)
      && st.st_size > 0 && (uint64_t) st.st_size <= INT32_MAX)
    {
      *sizep = st.st_size;
      result = __mmap (NULL, *sizep, prot, MAP_PRIVATE, fd, 0);
    }
  __close_nocancel (fd);

  /* A string that is cut off ends in the zeros after the file's end, if the
     last page has any.  */
  if (result != MAP_FAILED && (*sizep & (GLRO(dl_pagesize) - 1)) == 0
      && ((const char *) result)[*sizep - 1] != '\0')
    {
      __munmap (result, *sizep);
      result = MAP_FAILED;
    }
  return result;
}

/* The record of the package at PATH[0..ROOT), made where there is none.  */
static struct package_cache *
package_cache_get (const char *path, size_t root)
{
  /* Without the slash, so that the loader's file names one cache as a path,
     the one that it was configured with.  */
  static const char name[] = "etc/ld.so.cache";
  struct package_cache *p;
  for (p = package_caches; p != NULL; p = p->next)
    if (p->root == root && memcmp (p->file, path, root) == 0)
      return p;

  p = malloc (sizeof *p + root + 1 + sizeof name);
  if (p == NULL)
    return NULL;
  p->cache = NULL;
  p->cache_new = NULL;
  p->cachesize = 0;
  p->root = root;
  char *end = __mempcpy (p->file, path, root);
  *end++ = '/';
  memcpy (end, name, sizeof name);
  p->next = package_caches;
  package_caches = p;
  return p;
}

/* Exchange the cache in use with that of P.  The priorities of hwcaps
   subdirectories are numbered by the cache, so they are made anew.  */
static void
package_cache_exchange (struct package_cache *p)
{
  struct package_cache other = *p;
  p->cache = cache;
  p->cache_new = cache_new;
  p->cachesize = cachesize;
  cache = other.cache;
  cache_new = other.cache_new;
  cachesize = other.cachesize;
#ifdef SHARED
  glibc_hwcaps_priorities_length = 0;
#endif
}

const char *
_dl_package_cache_lookup (const char *name, const char *path, size_t root)
{
  struct package_cache *p = package_cache_get (path, root);
  if (p == NULL || p->cache == (void *) -1)
    return NULL;
  package_cache_exchange (p);
  const char *best = cache_find (name, p->file, package_cache_map);
  package_cache_exchange (p);
  return best;
}
