/* Open the library that the resolution note of an object names.
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

   The descriptor of an NT_NIXOS_LD_CACHE note is a sequence of pairs of
   strings, a needed string and a list, and ends with an empty string.  The
   elements of a list are separated by colons: "=DIRECTORY/NAME" is a file to
   open, "?DIRECTORY" a directory to search.  The directories are elements of
   the run path of the object.

   The first pair of a complete note is a mark.  The writer of such a note
   guarantees that a list leaves out only directories that cannot change.
   Other notes are ignored.

   A note can be corrupt.  Nothing is read outside of the part of the segment
   that is loaded from the file, the descriptor is checked as a whole, and
   only directories of the run path are opened.  If a list leads to no
   library, the run path is searched as without a note.  */

/* A lookup.  */
struct resolution
{
  struct link_map *l;
  const char *path, *list, *name;	/* PATH is the run path of L.  */
  int mode, fd;
  char **realname;
  struct filebuf *fbp;
};

/* Return the list for NAME in the LENGTH bytes of the descriptor AT.  Return
   an empty list if there is none, or if the note is not complete or not
   well-formed.  */
static const char *
resolution_lookup (const char *at, size_t length, const char *name)
{
  static const char mark[] __attribute_used__ = "/complete/1\0?";
  const char *end = at + length, *list = "";
  /* The last NUL ends each string that counts.  */
  while (end > at && end[-1] != '\0')
    --end;
  if (end - at < sizeof mark || memcmp (at, mark, sizeof mark) != 0)
    return "";
  for (; at < end && *at != '\0'; ++at)
    {
      if (*list == '\0' && strcmp (at, name) == 0)
	list = strchr (at, '\0') + 1;
      at += strlen (at);
      do
	if (++at == end || (*at != '?' && (*at != '=' || at[1] == '\0'
					   || at[1] == ':')))
	  return "";
      while (*(at = strchrnul (at, ':')) != '\0');
    }
  return at < end ? list : "";
}

/* Find the first resolution note in the SIZE bytes at SEGMENT, and return its
   list for NAME.  Return NULL if there is no note.  The sums have 64 bits,
   because the numbers in a note have 32.  */
static const char *
resolution_in_segment (const char *segment, uint64_t size, uint64_t align,
		       const char *name)
{
  ElfW(Nhdr) note;		/* The segment can be unaligned.  */
  for (uint64_t at = 0; at <= size && size - at >= sizeof note;)
    {
      memcpy (&note, segment + at, sizeof note);
      const char *owner = segment + at + sizeof note;
      at = ALIGN_UP (at + sizeof note + note.n_namesz, align);
      if (at > size || note.n_descsz > size - at)
	break;
      if (note.n_type == NT_NIXOS_LD_CACHE
	  && note.n_namesz == sizeof ELF_NOTE_NIXOS
	  && memcmp (owner, ELF_NOTE_NIXOS, sizeof ELF_NOTE_NIXOS) == 0)
	return resolution_lookup (segment + at, note.n_descsz, name);
      at = ALIGN_UP (at + note.n_descsz, align);
    }
  return NULL;
}

/* Return the list of L for NAME, or NULL.  */
static const char *
resolution_find (struct link_map *l, const char *name)
{
  const ElfW(Phdr) *end = l->l_phdr + l->l_phnum;
  const char *list = NULL;
  for (const ElfW(Phdr) *n = l->l_phdr; list == NULL && n < end; ++n)
    for (const ElfW(Phdr) *ph = l->l_phdr;
	 list == NULL && n->p_type == PT_NOTE && ph < end; ++ph)
      /* The difference is too large if the note is before the segment.  */
      if (ph->p_type == PT_LOAD && (ph->p_flags & PF_R) != 0
	  && ph->p_filesz <= ph->p_memsz
	  && n->p_vaddr - ph->p_vaddr <= ph->p_filesz
	  && n->p_filesz <= ph->p_filesz - (n->p_vaddr - ph->p_vaddr))
	list = resolution_in_segment ((const char *) (l->l_addr + n->p_vaddr),
				      n->p_filesz, n->p_align == 8 ? 8 : 4,
				      name);
  return list;
}

/* Return true if the run path PATH has the directory DIR.  Slashes at the end
   of DIR and one at the end of an element do not count.  */
static bool
resolution_has (const char *path, const char *dir, size_t length)
{
  while (length > 1 && dir[length - 1] == '/')
    --length;
  for (const char *end;; path = end + 1)
    {
      end = strchrnul (path, ':');
      size_t size = end - path - (end - path > 1 && end[-1] == '/');
      if (size == length && memcmp (path, dir, size) == 0)
	return true;
      if (*end == '\0')
	return false;
    }
}

/* Try the elements of the list.  An error that would end the search of a run
   path ends the list.  */
static void
resolution_try (void *closure)
{
  struct resolution *r = closure;
  do
    {
      const char *dir = r->list + 1, *end = strchrnul (dir, ':');
      size_t namelen = strlen (r->name), n = *r->list == '=' ? namelen : 0;
      bool other_class = false;
      char *copy;
      if (end - dir < n || memcmp (end - n, r->name, n) != 0
	  || (n > 0 && *(end - n - 1) != '/')
	  || !resolution_has (r->path, dir, end - dir - n)
	  || (copy = __strndup (dir, end - dir)) == NULL)
	return;
      r->list = end + (*end == ':');
      __set_errno (ENOENT);
      if (n > 0)
	{
	  *r->realname = expand_dynamic_string_token (r->l, copy);
	  if (__glibc_unlikely (GLRO(dl_debug_mask) & DL_DEBUG_LIBS))
	    _dl_debug_printf ("  trying file=%s\n", *r->realname);
	  if (*r->realname != NULL)
	    r->fd = open_verify (*r->realname, -1, r->fbp, r->l,
				 LA_SER_RUNPATH, r->mode, &other_class, true);
	  free (r->fd == -1 ? *r->realname : NULL);
	}
      else
	{
	  struct r_search_path_elem *dirs[2] = { NULL };
	  struct r_search_path_struct path = { .dirs = dirs };
	  fillin_rpath (copy, dirs, ":", "RUNPATH", r->l->l_name, r->l);
	  if (dirs[0] != NULL)
	    r->fd = open_path (r->name, namelen + 1, r->mode, &path,
			       r->realname, r->fbp, r->l, LA_SER_RUNPATH,
			       &other_class);
	}
      free (copy);
    }
  while (r->fd == -1 && *r->list != '\0'
	 && (errno == ENOENT || errno == EACCES));
}

/* Open the library NAME with the help of the note of L, whose run path is the
   value of TAG.  The other arguments and the result are those of
   open_path.  */
static int
resolution_open (struct link_map *l, int tag, const char *name, int mode,
		 char **realname, struct filebuf *fbp)
{
  const char *list;
  if (l == NULL || l->l_info[tag] == NULL || __libc_enable_secure
      || GLRO(dl_inhibit_rpath) != NULL
      || (TUNABLE_GET (glibc, rtld, resolution, int32_t, NULL) & 1) == 0
      || (list = resolution_find (l, name)) == NULL || *list == '\0')
    return -1;

  const char *path = ((const char *) D_PTR (l, l_info[DT_STRTAB])
		      + l->l_info[tag]->d_un.d_val);
  struct resolution r = { l, path, list, name, mode, -1, realname, fbp };
  struct dl_exception exception;
  _dl_catch_exception (&exception, resolution_try, &r);
  _dl_exception_free (&exception);
  return r.fd;
}
