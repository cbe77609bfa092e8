/* Open the file that the resolution note of an object names.
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

/* This is part of dl-load.c, whose search functions are static.

   The note of an object replaces the search of the run path of this object.
   If the list of the note leads to no usable file, the search continues as
   without a note.  A file that the list names can be missing or damaged, so
   errors that would be fatal in a search are caught.  */

#include <dl-tunables.h>
#include "dl-resolution.h"

/* The stores.  Files in a package of a store do not change.  The array has a
   name in the file of the loader, for tools.  */
#define STORES_NAME "dl_resolution_stores="
static const char dl_stores[] __attribute_used__ = STORES_NAME DL_STORES;
#define STORES (dl_stores + sizeof STORES_NAME - 1)

/* A lookup.  */
struct resolution
{
  struct link_map *loader;
  const char *name;
  size_t namelen;
  int mode;
  struct filebuf *fbp;
  const char *list;
  const char *run_path;	/* The value of DT_RUNPATH or DT_RPATH.  */
  const char *mutable;	/* The first element of it that can change and was
			   not searched yet, or NULL.  */
  bool is_rpath;	/* The run path is DT_RPATH.  */
  int fd;
  char *realname;
};

/* Return the length of the package root of L, which starts at *PATH.  The
   name of the main program is empty, so its directory is used.  */
static size_t
resolution_root (struct link_map *l, const char **path)
{
  bool is_directory = l->l_name[0] == '\0';
  if (is_directory && l->l_origin == NULL)
    l->l_origin = _dl_get_origin ();
  *path = is_directory ? l->l_origin : l->l_name;
  if (*path == (const char *) -1)
    return 0;
  return _dl_resolution_root (*path, strlen (*path), is_directory, STORES);
}

/* Return true if the directory ELEMENT of the run path of L cannot change,
   because it is in a package of a store.  */
static bool
resolution_is_immutable (struct link_map *l, const char *element,
			 size_t length)
{
  if (__glibc_likely (memchr (element, '$', length) == NULL))
    return _dl_resolution_root (element, length, true, STORES) != 0;

  char *copy = __strndup (element, length);
  char *path = copy == NULL ? NULL : expand_dynamic_string_token (l, copy);
  bool result
    = (path != NULL
       && _dl_resolution_root (path, strlen (path), true, STORES) != 0);
  free (path);
  free (copy);
  return result;
}

/* Return the first element of the run path of L at or after ELEMENT that can
   change, or NULL.  */
static const char *
resolution_first_mutable (struct link_map *l, const char *element)
{
  while (true)
    {
      const char *end = strchrnul (element, ':');
      if (!resolution_is_immutable (l, element, end - element))
	return element;
      if (*end == '\0')
	return NULL;
      element = end + 1;
    }
}

/* Return true if DIRECTORY, an element of the run path, and the LENGTH bytes
   at PATH are the same, apart from slashes at the end.  */
static bool
resolution_is_same (const char *directory, const char *path, size_t length)
{
  size_t size = strchrnul (directory, ':') - directory;
  while (size > 1 && directory[size - 1] == '/')
    --size;
  while (length > 1 && path[length - 1] == '/')
    --length;
  return size == length && memcmp (directory, path, size) == 0;
}

/* Return true if a search of the run path would come to the file or directory
   PATH of the list without a search of a directory that can change and that
   the list does not have.  A library can be added to such a directory after
   the note was written.  patchelf 0.19.3 writes no "?DIRECTORY" for a
   directory that exists but does not have the library.  */
static bool
resolution_is_next (struct resolution *r, bool is_file, const char *path,
		    size_t length)
{
  if (r->mutable == NULL)
    return true;

  if (is_file)
    while (length > 0 && path[length - 1] != '/')
      --length;
  else if (resolution_is_same (r->mutable, path, length))
    {
      const char *end = strchrnul (r->mutable, ':');
      r->mutable = (*end == '\0' ? NULL
		    : resolution_first_mutable (r->loader, end + 1));
      return true;
    }
  for (const char *directory = r->run_path; directory < r->mutable;
       directory = strchrnul (directory, ':') + 1)
    if (resolution_is_same (directory, path, length))
      return true;
  return false;
}

/* Open FILE.  Return true if the search should continue.  */
static bool
resolution_open_file (struct resolution *r, const char *file, int whatcode)
{
  bool found_other_class = false;
  r->realname = expand_dynamic_string_token (r->loader, file);
  if (r->realname == NULL)
    return false;
  if (r->realname[0] == '/')
    {
      if (__glibc_unlikely (GLRO(dl_debug_mask) & DL_DEBUG_LIBS))
	_dl_debug_printf ("  trying file=%s\n", r->realname);
      r->fd = open_verify (r->realname, -1, r->fbp, r->loader, whatcode,
			   r->mode | __RTLD_RESOLUTION, &found_other_class,
			   false);
      if (r->fd != -1)
	return false;
    }
  else
    __set_errno (EINVAL);
  free (r->realname);
  return errno == ENOENT || errno == EACCES;
}

/* Search DIRECTORY, like a run path with one element.  Return true if the
   search should continue.  */
static bool
resolution_search (struct resolution *r, char *directory)
{
  struct r_search_path_elem *dirs[2];
  struct r_search_path_struct path = { .dirs = dirs, .malloced = 0 };
  bool found_other_class = false;

  fillin_rpath (directory, dirs, ":", r->is_rpath ? "RPATH" : "RUNPATH",
		r->loader->l_name, r->loader);
  if (dirs[0] == NULL)
    return true;
  __set_errno (ENOENT);
  r->fd = open_path (r->name, r->namelen, r->mode | __RTLD_RESOLUTION, &path,
		     &r->realname, r->fbp, r->loader, LA_SER_RUNPATH,
		     &found_other_class);
  return r->fd == -1 && (errno == ENOENT || errno == EACCES);
}

/* Try the elements of the list.  A path that is too long ends the list.  */
static void
resolution_try (void *closure)
{
  struct resolution *r = closure;
  char path[DL_RESOLUTION_MAX];
  bool more = true;
  while (more && *r->list != '\0')
    {
      bool is_file = *r->list == '=';
      const char *start = r->list + 1;
      const char *end = strchrnul (start, ':');
      if (end - start >= sizeof path
	  || !resolution_is_next (r, is_file, start, end - start))
	return;
      *(char *) __mempcpy (path, start, end - start) = '\0';
      more = (is_file ? resolution_open_file (r, path, LA_SER_RUNPATH)
	      : resolution_search (r, path));
      r->list = end + (*end == ':');
    }
}

/* Call TRY, and return the descriptor of the file that it opened, or -1.  */
static int
resolution_catch (struct resolution *r, void (*try) (void *),
		  char **realname)
{
  struct dl_exception exception;
  r->fd = -1;
  _dl_catch_exception (&exception, try, r);
  if (__glibc_unlikely (exception.errstring != NULL))
    {
      _dl_exception_free (&exception);
      return -1;
    }
  if (r->fd != -1)
    *realname = r->realname;
  return r->fd;
}

/* Return true if the note of L and the other files that were generated for L
   can be used for this lookup.  IN_RPATH is true in the place of DT_RPATH and
   false in the place of DT_RUNPATH; an object has only one of the places.  In
   secure mode only objects in a store count, and only for other libraries
   than the preloaded ones, which open_path checks in a special way.  */
static bool
resolution_is_enabled (struct link_map *l, bool in_rpath, int mode)
{
  if (l == NULL || l->l_real != l || l->l_faked)
    return false;

  bool has_runpath = l->l_info[DT_RUNPATH] != NULL;
  bool has_rpath = !has_runpath && l->l_info[DT_RPATH] != NULL;
  if (has_rpath != in_rpath)
    return false;

  const char *path;
  if (__glibc_unlikely (__libc_enable_secure)
      && ((mode & __RTLD_SECURE) != 0 || resolution_root (l, &path) == 0))
    return false;

  /* The option --inhibit-rpath also disables the note.  */
  return (__glibc_likely (GLRO(dl_inhibit_rpath) == NULL)
	  || (has_rpath
	      ? cache_rpath (l, &l->l_rpath_dirs, DT_RPATH, "RPATH")
	      : cache_rpath (l, &l->l_runpath_dirs, DT_RUNPATH, "RUNPATH")));
}

/* Return the note of L, or NULL.  The object is only read the first time.
   The padding of the map has 32 bits for the offset of the note.  */
static const char *
resolution_note (struct link_map *l)
{
  if (l->l_resolution == 0)
    {
      const char *note = _dl_resolution_find (l->l_phdr, l->l_phnum,
					      l->l_addr);
      ElfW(Addr) offset = (ElfW(Addr)) note - l->l_map_start;
      l->l_resolution
	= note == NULL || offset != (uint32_t) offset ? 1 : offset;
    }
  return (l->l_resolution == 1 ? NULL
	  : (const char *) l->l_map_start + l->l_resolution);
}

/* Open the library NAME with the help of the note of L.  The arguments and
   the result are those of open_path.  */
static int
resolution_open (struct link_map *l, bool in_rpath, const char *name,
		 size_t namelen, int mode, char **realname,
		 struct filebuf *fbp)
{
  if (!resolution_is_enabled (l, in_rpath, mode)
      || (TUNABLE_GET (glibc, rtld, resolution, int32_t, NULL)
	  & DL_RESOLUTION_NOTE) == 0
      || resolution_note (l) == NULL)
    return -1;

  struct resolution r =
    {
      .loader = l, .name = name, .namelen = namelen, .mode = mode,
      .fbp = fbp, .is_rpath = in_rpath
    };
  r.list = _dl_resolution_lookup (resolution_note (l), name);
  if (r.list == NULL)
    return -1;
  if (__glibc_unlikely (GLRO(dl_debug_mask) & DL_DEBUG_LIBS))
    _dl_debug_printf (" search note=%s\n", DSO_FILENAME (l->l_name));

  ElfW(Dyn) *run_path = l->l_info[in_rpath ? DT_RPATH : DT_RUNPATH];
  if (run_path != NULL && !l->l_resolution_immutable)
    {
      r.run_path = (const char *) (D_PTR (l, l_info[DT_STRTAB])
				   + run_path->d_un.d_val);
      if (*r.run_path != '\0')
	r.mutable = resolution_first_mutable (l, r.run_path);
      l->l_resolution_immutable = r.mutable == NULL;
    }
  return resolution_catch (&r, resolution_try, realname);
}
