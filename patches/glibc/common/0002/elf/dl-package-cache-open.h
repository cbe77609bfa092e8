/* Open the file that the loader cache of a package names.
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

/* This is part of dl-load.c, after dl-resolution.h.

   The cache of a package answers in the place of the run path of an object,
   if the object is in the package and has no complete resolution note.  */

#ifdef USE_LDCONFIG

/* The stores.  Files in a package of a store do not change.  The array has a
   name in the file of the loader, for tools.  */
# define STORES_NAME "dl_resolution_stores="
static const char dl_stores[] __attribute_used__ = STORES_NAME DL_STORES;
# define STORES (dl_stores + sizeof STORES_NAME - 1)

/* Return the length of the first component of PATH, which is relative to a
   store, or 0 if the path leads out of this component.  Symbolic links do not
   matter: who can create one in a package can change the package.  */
static size_t
package_length (const char *path, const char *end, bool is_directory)
{
  size_t package = 0;
  size_t depth = 0;
  for (const char *at = path; at <= end;)
    {
      const char *next = memchr (at, '/', end - at);
      if (next == NULL)
	next = end;
      size_t length = next - at;
      if (length > 2 || memcmp (at, "..", length) != 0)
	++depth;
      else if (length == 2 && depth > 0)
	--depth;
      if (depth == 0)
	return 0;
      if (package == 0)
	package = length;
      at = next + 1;
    }
  return is_directory || path + package < end ? package : 0;
}

/* Return the length of the package root in the LENGTH bytes at PATH: one of
   the STORES, which are separated by colons, and the next component.  Return
   0 if PATH is not in a package.  A directory can be the root itself.  */
static size_t
package_root (const char *path, size_t length, bool is_directory,
	      const char *stores)
{
  while (*stores != '\0')
    {
      const char *next = strchrnul (stores, ':');
      size_t store = next - stores;
      while (store > 0 && stores[store - 1] == '/')
	--store;

      /* The directory "/" is not a store.  */
      if (store > 0 && stores[0] == '/' && length > store
	  && memcmp (path, stores, store) == 0 && path[store] == '/')
	{
	  size_t package = package_length (path + store + 1, path + length,
					   is_directory);
	  if (package != 0)
	    return store + 1 + package;
	}
      stores = next + (*next == ':');
    }
  return 0;
}

/* Return the length of the package root of L, which starts at *PATH.  The
   name of the main program is empty, so its directory is used.  */
static size_t
package_root_of (struct link_map *l, const char **path)
{
  bool is_directory = l->l_name[0] == '\0';
  if (is_directory && l->l_origin == NULL)
    l->l_origin = _dl_get_origin ();
  *path = is_directory ? l->l_origin : l->l_name;
  if (*path == (const char *) -1)
    return 0;
  return package_root (*path, strlen (*path), is_directory, STORES);
}

/* Return true if FILE, which a cache has for NAME, can be used for L.  Who
   writes a cache knows what the objects of the package need.  Another name,
   from LD_PRELOAD or dlopen, can be in the cache for another object.  For it
   the file has to be in a directory of the run path of L.  */
static bool
package_cache_is_for (struct link_map *l, bool is_rpath, const char *name,
		      const char *file)
{
  const char *strings = (const char *) D_PTR (l, l_info[DT_STRTAB]);
  for (const ElfW(Dyn) *d = l->l_ld; d->d_tag != DT_NULL; ++d)
    if (d->d_tag == DT_NEEDED && strcmp (strings + d->d_un.d_val, name) == 0)
      return true;

  if (!(is_rpath
	? cache_rpath (l, &l->l_rpath_dirs, DT_RPATH, "RPATH")
	: cache_rpath (l, &l->l_runpath_dirs, DT_RUNPATH, "RUNPATH")))
    return false;
  struct r_search_path_elem **dir
    = is_rpath ? l->l_rpath_dirs.dirs : l->l_runpath_dirs.dirs;
  for (; *dir != NULL; ++dir)
    if (strncmp (file, (*dir)->dirname, (*dir)->dirnamelen) == 0
	&& strcmp (file + (*dir)->dirnamelen, name) == 0)
      return true;
  return false;
}

/* Return true if FILE is in a system directory.  */
static bool
package_cache_is_system (const char *file)
{
  const char *dir = system_dirs;
  for (size_t i = 0; i < nsystem_dirs_len; ++i)
    {
      if (strncmp (file, dir, system_dirs_len[i]) == 0)
	return true;
      dir += system_dirs_len[i] + 1;
    }
  return false;
}

/* Open the file.  It can be missing or damaged, or no file.  */
static void
package_cache_try (void *closure)
{
  struct resolution *r = closure;
  bool found_other_class = false;
  *r->realname = expand_dynamic_string_token (r->l, r->list);
  if (*r->realname == NULL)
    return;
  if (**r->realname == '/')
    {
      if (__glibc_unlikely (GLRO(dl_debug_mask) & DL_DEBUG_LIBS))
	_dl_debug_printf ("  trying file=%s\n", *r->realname);
      r->fd = open_verify (*r->realname, -1, r->fbp, r->l, LA_SER_CONFIG,
			   r->mode | __RTLD_PACKAGE_CACHE, &found_other_class,
			   true);
    }
  if (r->fd == -1)
    free (*r->realname);
}

/* Return true if the files that were generated for L can be used for this
   lookup.  In secure mode only objects in a store count, and only for other
   libraries than the preloaded ones, which open_path checks in a special way.
   The option --inhibit-rpath also disables the caches.  */
static bool
package_cache_is_enabled (struct link_map *l, int tag, int mode)
{
  const char *path;
  return (l != NULL && l->l_real == l && !l->l_faked && l->l_info[tag] != NULL
	  && !GLRO(dl_inhibit_cache)
	  && (__glibc_likely (!__libc_enable_secure)
	      || ((mode & __RTLD_SECURE) == 0
		  && package_root_of (l, &path) != 0))
	  && (__glibc_likely (GLRO(dl_inhibit_rpath) == NULL)
	      || (tag == DT_RPATH
		  ? cache_rpath (l, &l->l_rpath_dirs, tag, "RPATH")
		  : cache_rpath (l, &l->l_runpath_dirs, tag, "RUNPATH"))));
}

/* Open the library NAME with the help of the cache of the package of L.  The
   arguments and the result are those of resolution_open.  */
static int
package_cache_open (struct link_map *l, int tag, const char *name, int mode,
		    char **realname, struct filebuf *fbp)
{
  int32_t readers = TUNABLE_GET (glibc, rtld, resolution, int32_t, NULL);
  const char *path, *list;
  if ((readers & 2) == 0 || !package_cache_is_enabled (l, tag, mode))
    return -1;

  /* The mark is the first pair of a complete note.  */
  if ((readers & 1) != 0
      && (list = resolution_find (l, "/complete/1")) != NULL && *list != '\0')
    return -1;

  size_t root = package_root_of (l, &path);
  if (root == 0)
    return -1;
  const char *file = _dl_package_cache_lookup (name, path, root);
  if (file == NULL || !package_cache_is_for (l, tag == DT_RPATH, name, file)
      || ((l->l_flags_1 & DF_1_NODEFLIB) != 0
	  && package_cache_is_system (file)))
    return -1;

  struct resolution r =
    {
      .l = l, .list = file, .name = name, .mode = mode, .fd = -1,
      .realname = realname, .fbp = fbp
    };
  struct dl_exception exception;
  _dl_catch_exception (&exception, package_cache_try, &r);
  _dl_exception_free (&exception);
  return r.fd;
}

#else
static int
package_cache_open (struct link_map *l, int tag, const char *name, int mode,
		    char **realname, struct filebuf *fbp)
{
  return -1;
}
#endif
