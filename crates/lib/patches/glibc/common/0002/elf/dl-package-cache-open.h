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

/* This is part of dl-load.c, after dl-resolution-open.h.

   The cache of a package answers in the place of the run path of an object,
   if the object is in the package and has no resolution note.  */

/* A bit of the tunable glibc.rtld.resolution: read the caches.  */
#define DL_RESOLUTION_CACHE 2

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

static void
package_cache_try (void *closure)
{
  struct resolution *r = closure;
  resolution_open_file (r, r->list, LA_SER_CONFIG);
}

/* Open the library NAME with the help of the cache of the package of L.  The
   arguments and the result are those of resolution_open.  */
static int
package_cache_open (struct link_map *l, bool in_rpath, const char *name,
		    size_t namelen, int mode, char **realname,
		    struct filebuf *fbp)
{
#ifdef USE_LDCONFIG
  if (!resolution_is_enabled (l, in_rpath, mode)
      || l->l_info[in_rpath ? DT_RPATH : DT_RUNPATH] == NULL
      || GLRO(dl_inhibit_cache))
    return -1;

  int32_t readers = TUNABLE_GET (glibc, rtld, resolution, int32_t, NULL);
  if ((readers & DL_RESOLUTION_CACHE) == 0
      || ((readers & DL_RESOLUTION_NOTE) != 0 && resolution_note (l) != NULL))
    return -1;

  const char *path;
  size_t root = resolution_root (l, &path);
  if (root == 0)
    return -1;
  const char *file = _dl_package_cache_lookup (name, path, root);
  if (file == NULL || !package_cache_is_for (l, in_rpath, name, file)
      || ((l->l_flags_1 & DF_1_NODEFLIB) != 0
	  && package_cache_is_system (file)))
    return -1;

  struct resolution r =
    {
      .loader = l, .name = name, .namelen = namelen, .mode = mode,
      .fbp = fbp, .list = file, .is_rpath = in_rpath
    };
  return resolution_catch (&r, package_cache_try, realname);
#else
  return -1;
#endif
}
