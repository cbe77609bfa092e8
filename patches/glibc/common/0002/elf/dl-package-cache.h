/* Loader caches of packages.
   Copyright The GNU Toolchain Authors.
   This file is part of the GNU C Library.

   The GNU C Library is free software; you can redistribute it and/or
   modify it under the terms of the GNU Lesser General Public
   License as published by the Free Software Foundation; either
   version 2.1 of the License, or (at your option) any later version.

   The GNU C Library is distributed in the hope that it will be useful,
   but WITHOUT ANY WARRANTY; without even the implied warranty of
   MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE.  See the GNU
   Lesser General Public License for more details.

   You should have received a copy of the GNU Lesser General Public
   License along with the GNU C Library; if not, see
   <https://www.gnu.org/licenses/>.  */

/* This is part of dl-cache.c.  A package in a store can have a file
   etc/ld.so.cache in the format of the cache of the system.  Files in a store
   do not change, so each cache is mapped once, until __libc_freeres.  */

#include <fcntl.h>
#include <not-cancel.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* A package, with or without a cache.  */
struct package_cache
{
  struct package_cache *next;
  struct loaded_cache loaded;
  size_t root;		/* Length of the root in FILE.  */
  bool malloced;	/* Allocated by the full malloc.  */
  char file[];
};
static struct package_cache *package_caches;

/* Map FILE, which has *SIZEP bytes.  It can be a FIFO or a directory.  */
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

  /* If the last string has no NUL, it ends in the zeros after the end of the
     file, unless the file ends at the end of a page.  */
  if (result != MAP_FAILED && (*sizep & (GLRO(dl_pagesize) - 1)) == 0
      && ((const char *) result)[*sizep - 1] != '\0')
    {
      __munmap (result, *sizep);
      result = MAP_FAILED;
    }
  return result;
}

/* Return the record of the package at PATH, whose root has ROOT bytes.  */
static struct package_cache *
package_cache_get (const char *path, size_t root)
{
  /* There is no slash at the start, so that the file of the loader has only
     one path of a cache, the one of the system.  */
  static const char name[] = "etc/ld.so.cache";
  struct package_cache *p;
  for (p = package_caches; p != NULL; p = p->next)
    if (p->root == root && memcmp (p->file, path, root) == 0)
      return p;

  p = malloc (sizeof *p + root + 1 + sizeof name);
  if (p == NULL)
    return NULL;
  memset (p, 0, sizeof *p);
#ifdef SHARED
  p->malloced = __rtld_malloc_is_complete ();
#else
  p->malloced = true;
#endif
  p->root = root;
  char *end = __mempcpy (p->file, path, root);
  *end++ = '/';
  memcpy (end, name, sizeof name);
  p->next = package_caches;
  package_caches = p;
  return p;
}

const char *
_dl_package_cache_lookup (const char *name, const char *path, size_t root)
{
  struct package_cache *p = package_cache_get (path, root);
  if (p == NULL || p->loaded.cache == (void *) -1)
    return NULL;
  const char *result = cache_find (&p->loaded, name, p->file,
				   package_cache_map);
  if (p->loaded.cache == NULL)
    p->loaded.cache = (void *) -1;
  return result;
}

void
_dl_package_cache_freeres (void)
{
  struct package_cache *next;
  for (struct package_cache *p = package_caches; p != NULL; p = next)
    {
      next = p->next;
      if (p->loaded.cache != NULL && p->loaded.cache != (void *) -1)
	__munmap (p->loaded.cache, p->loaded.cachesize);
#ifdef SHARED
      glibc_hwcaps_priorities_free (&p->loaded);
#endif
      if (p->malloced)
	free (p);
    }
  package_caches = NULL;
}
