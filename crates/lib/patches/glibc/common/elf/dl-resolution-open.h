/* Resolution notes and package caches in the search for a library.
   SPDX-License-Identifier: LGPL-2.1-or-later

   Part of dl-load.c, whose search functions are static.

   The answer of a note or of a package's loader cache stands where the run
   path of the asking object stands, and can only be taken: whatever is wrong
   with it, a path that is gone, another class or machine, a directory, no
   ELF file at all, leads to the plain search that would have been made
   without it.  */

#include <dl-resolution.h>

#if defined HAVE_TUNABLES && !HAVE_TUNABLES
# define RESOLUTION_SWITCH (dl_resolution_note | dl_resolution_cache)
#else
# include <dl-tunables.h>
# define RESOLUTION_SWITCH TUNABLE_GET (glibc, rtld, resolution, int32_t, NULL)
#endif

/* The store prefixes.  They stand in the loader's file behind a name, so that
   a tool can tell what a loader reads without running it.  */
#define STORES_NAME "dl_resolution_stores="
static const char stores[] __attribute_used__ = STORES_NAME STORE_PREFIXES;

/* One question and, once answered, the open file.  */
struct resolution
{
  struct link_map *loader;
  const char *name;
  size_t namelen;
  int mode;
  struct filebuf *fbp;
  const char *list;	/* A note's list; NULL where CACHED is set.  */
  const char *cached;	/* A cache's file.  */
  const char *run_path;	/* The text of the run path, for a note's list.  */
  const char *unsteady;	/* The first element of it that may change and was
			   not searched yet; NULL where there is none.  */
  bool rpath;		/* The answer stands for DT_RPATH.  */
  int fd;
  char *realname;
};

/* The package root of L: in *PATH, its length returned.  The kernel tells
   no name of the main program, but where its file lies.  */
static size_t
resolution_root (struct link_map *l, const char **path)
{
  if (sizeof stores == sizeof STORES_NAME)
    return 0;
  bool unnamed = l->l_name[0] == '\0';
  if (unnamed && l->l_origin == NULL)
    l->l_origin = _dl_get_origin ();
  *path = unnamed ? l->l_origin : l->l_name;
  if (*path == (const char *) -1)
    return 0;
  return _dl_resolution_root (*path, unnamed,
			      stores + sizeof STORES_NAME - 1);
}

/* Open FILE, NUL-terminated.  False ends the walk of a list.  */
static bool
resolution_open_file (struct resolution *r, const char *file, int whatcode)
{
  bool other_class = false;
  char *expanded = NULL;
  if (strchr (file, '$') != NULL)
    file = expanded = expand_dynamic_string_token (r->loader, file);
  if (file == NULL || *file != '/')
    {
      free (expanded);
      return false;
    }

  if (__glibc_unlikely (GLRO(dl_debug_mask) & DL_DEBUG_LIBS)
      && whatcode != LA_SER_CONFIG)
    _dl_debug_printf ("  trying file=%s\n", file);
  r->fd = open_verify (file, -1, r->fbp, r->loader, whatcode,
		       r->mode | __RTLD_RESOLUTION, &other_class, false);
  if (r->fd == -1)
    {
      free (expanded);
      return errno == ENOENT || errno == EACCES;
    }
  r->realname = expanded != NULL ? expanded : __strdup (file);
  if (r->realname == NULL)
    {
      __close_nocancel (r->fd);
      r->fd = -1;
    }
  return false;
}

/* Search DIRECTORY, which this may change, as a run path of one element.
   False ends the walk of a list.  */
static bool
resolution_search (struct resolution *r, char *directory)
{
  struct r_search_path_elem *dirs[2];
  struct r_search_path_struct path = { .dirs = dirs, .malloced = 0 };
  bool other_class = false;

  fillin_rpath (directory, dirs, ":", r->rpath ? "RPATH" : "RUNPATH",
		r->loader->l_name, r->loader);
  if (dirs[0] == NULL)
    return true;
  __set_errno (ENOENT);
  r->fd = open_path (r->name, r->namelen, r->mode | __RTLD_RESOLUTION, &path,
		     &r->realname, r->fbp, r->loader, LA_SER_RUNPATH,
		     &other_class);
  return r->fd == -1 && (errno == ENOENT || errno == EACCES);
}

/* Whether the run path of L cannot change at ELEMENT[0..LENGTH): a directory
   of a package of a store.  */
static bool
resolution_is_steady (struct link_map *l, const char *element, size_t length)
{
  if (sizeof stores == sizeof STORES_NAME || length >= DL_RESOLUTION_PATH_MAX)
    return false;
  char path[length + 1];
  *((char *) __mempcpy (path, element, length)) = '\0';
  char *expanded = NULL;
  if (strchr (path, '$') != NULL)
    expanded = expand_dynamic_string_token (l, path);
  bool steady = _dl_resolution_root (expanded != NULL ? expanded : path, true,
				     stores + sizeof STORES_NAME - 1) != 0;
  free (expanded);
  return steady;
}

/* The first element of the run path of L at or after ELEMENT that may
   change, or NULL.  */
static const char *
resolution_unsteady (struct link_map *l, const char *element)
{
  while (true)
    {
      size_t length = strchrnul (element, ':') - element;
      if (!resolution_is_steady (l, element, length))
	return element;
      element += length;
      if (*element++ == '\0')
	return NULL;
    }
}

/* Whether the elements A and B are spelled the same, slashes at the end
   aside.  */
static bool
resolution_is_same (const char *a, size_t a_length, const char *b,
		    size_t b_length)
{
  while (a_length > 1 && a[a_length - 1] == '/')
    --a_length;
  while (b_length > 1 && b[b_length - 1] == '/')
    --b_length;
  return a_length == b_length && memcmp (a, b, a_length) == 0;
}

/* Whether the run path would have come to ANSWER of a note's list without a
   search of a directory that may change and is not on the list.  patchelf
   leaves out each directory that lacks the library as it writes the note, in
   a store or not, so what appears there later would be passed over.  nixpkgs'
   loader declines such notes as well (the fixture prog-mutable of the tests
   of its ldcache.patch).  */
static bool
resolution_is_in_turn (struct resolution *r,
		       const struct dl_resolution_answer *answer)
{
  if (r->unsteady == NULL)
    return true;
  size_t length = answer->length;
  if (answer->kind == '=')
    {
      while (length > 0 && answer->path[length - 1] != '/')
	--length;
      if (length > 1)
	--length;
    }
  else
    {
      size_t next = strchrnul (r->unsteady, ':') - r->unsteady;
      if (resolution_is_same (r->unsteady, next, answer->path, length))
	{
	  r->unsteady += next;
	  r->unsteady = (*r->unsteady == '\0' ? NULL
			 : resolution_unsteady (r->loader, r->unsteady + 1));
	  return true;
	}
    }
  for (const char *element = r->run_path; element < r->unsteady;)
    {
      size_t next = strchrnul (element, ':') - element;
      if (resolution_is_same (element, next, answer->path, length))
	return true;
      element += next + 1;
    }
  return false;
}

/* Try the elements of the note's list, or the cache's file.  An error other
   than a file that is not there would have ended the walk of the run path,
   and ends this one.  */
static void
resolution_try (void *closure)
{
  struct resolution *r = closure;
  struct dl_resolution_answer answer;

  if (r->list == NULL)
    {
      resolution_open_file (r, r->cached, LA_SER_CONFIG);
      return;
    }
  while (_dl_resolution_next (&r->list, &answer))
    {
      if (answer.length >= DL_RESOLUTION_PATH_MAX
	  || !resolution_is_in_turn (r, &answer))
	return;
      if (answer.kind == '=' && answer.path[answer.length] == '\0')
	{
	  resolution_open_file (r, answer.path, LA_SER_RUNPATH);
	  return;
	}
      char path[answer.length + 1];
      *((char *) __mempcpy (path, answer.path, answer.length)) = '\0';
      if (answer.kind == '='
	  ? !resolution_open_file (r, path, LA_SER_RUNPATH)
	  : !resolution_search (r, path))
	return;
    }
}

/* Whether L has a run path that counts; RPATH: DT_RPATH, else DT_RUNPATH.
   Its directories are known afterwards.  */
static bool
resolution_run_path (struct link_map *l, bool rpath)
{
  return (rpath ? cache_rpath (l, &l->l_rpath_dirs, DT_RPATH, "RPATH")
	  : cache_rpath (l, &l->l_runpath_dirs, DT_RUNPATH, "RUNPATH"));
}

/* Whether a cache may answer L for NAME by FILE.  Whoever wrote the cache saw
   what the package's objects need.  Any other name, one that is preloaded or
   that dlopen was given, may be there for another object: it is answered only
   by a file that the run path of L would have been searched for.  */
static bool
resolution_is_for (struct link_map *l, bool rpath, const char *name,
		   const char *file)
{
  const char *strings = (const char *) D_PTR (l, l_info[DT_STRTAB]);
  for (const ElfW(Dyn) *d = l->l_ld; d->d_tag != DT_NULL; ++d)
    if (d->d_tag == DT_NEEDED && strcmp (strings + d->d_un.d_val, name) == 0)
      return true;

  if (!resolution_run_path (l, rpath))
    return false;
  struct r_search_path_elem **dir
    = rpath ? l->l_rpath_dirs.dirs : l->l_runpath_dirs.dirs;
  for (; *dir != NULL; ++dir)
    if (strncmp (file, (*dir)->dirname, (*dir)->dirnamelen) == 0
	&& strcmp (file + (*dir)->dirnamelen, name) == 0)
      return true;
  return false;
}

/* Whether FILE lies in a directory that DF_1_NODEFLIB forbids.  */
static bool
resolution_is_default (const char *file)
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

/* Find where the run path of R->loader may change.  */
static void
resolution_begin (struct resolution *r)
{
  struct link_map *l = r->loader;
  ElfW(Dyn) *entry = l->l_info[r->rpath ? DT_RPATH : DT_RUNPATH];
  r->unsteady = NULL;
  if (entry == NULL || l->l_resolution_note.steady)
    return;
  r->run_path = (const char *) (D_PTR (l, l_info[DT_STRTAB])
				+ entry->d_un.d_val);
  if (*r->run_path != '\0')
    r->unsteady = resolution_unsteady (l, r->run_path);
  l->l_resolution_note.steady = r->unsteady == NULL;
}

/* What the note of R->loader or the cache of its package has for R->name.
   False where that is nothing.  */
static bool
resolution_find (struct resolution *r, bool has_run_path)
{
  struct link_map *l = r->loader;
  int32_t readers = RESOLUTION_SWITCH;
  const char *path;

  /* A program that runs with more rights than its user believes stores
     only, and nothing that is preloaded.  */
  if (__libc_enable_secure
      && ((r->mode & __RTLD_SECURE) != 0 || resolution_root (l, &path) == 0))
    return false;

  if ((readers & dl_resolution_note) != 0)
    {
      struct dl_resolution_note *note = &l->l_resolution_note;
      if (!note->looked_for)
	_dl_resolution_find (note, l->l_phdr, l->l_phnum, l->l_addr);
      r->list = _dl_resolution_lookup (note, r->name);
      if (r->list != NULL
	  && __glibc_unlikely (GLRO(dl_debug_mask) & DL_DEBUG_LIBS))
	_dl_debug_printf (" search note=%s\n", DSO_FILENAME (l->l_name));
      if (r->list != NULL)
	resolution_begin (r);
      if (note->pairs != NULL)
	return r->list != NULL;
    }

#ifdef USE_LDCONFIG
  /* A cache answers for the run paths of its package's objects.  */
  size_t root;
  if ((readers & dl_resolution_cache) != 0 && has_run_path
      && !GLRO(dl_inhibit_cache) && (root = resolution_root (l, &path)) != 0)
    {
      r->cached = _dl_package_cache_lookup (r->name, path, root);
      return (r->cached != NULL
	      && resolution_is_for (l, r->rpath, r->name, r->cached)
	      && !((l->l_flags_1 & DF_1_NODEFLIB) != 0
		   && resolution_is_default (r->cached)));
    }
#endif
  return false;
}

/* Open what the note of LOADER or the cache of its package says about NAME.
   IN_RPATH: asked in the place of DT_RPATH, not of DT_RUNPATH; an object
   answers in one of them.  Returns and stores what open_path does.  */
static int
resolution_open (struct link_map *loader, bool in_rpath, const char *name,
		 size_t namelen, int mode, char **realname,
		 struct filebuf *fbp)
{
  if (loader == NULL || loader->l_real != loader || loader->l_faked)
    return -1;

  bool runpath = loader->l_info[DT_RUNPATH] != NULL;
  bool rpath = !runpath && loader->l_info[DT_RPATH] != NULL;
  if (rpath != in_rpath)
    return -1;
  /* Where some run paths are to be ignored, is this one?  */
  if (__glibc_unlikely (GLRO(dl_inhibit_rpath) != NULL)
      && !resolution_run_path (loader, rpath))
    return -1;

  struct resolution r =
    {
      .loader = loader, .name = name, .namelen = namelen, .mode = mode,
      .fbp = fbp, .rpath = rpath, .fd = -1
    };
  if (!resolution_find (&r, runpath || rpath))
    return -1;

  struct dl_exception exception;
  _dl_catch_exception (&exception, resolution_try, &r);
  if (__glibc_unlikely (exception.errstring != NULL))
    {
      _dl_exception_free (&exception);
      return -1;
    }
  *realname = r.realname;
  return r.fd;
}
