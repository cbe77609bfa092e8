/* Read the resolution note of an object.
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

/* The note has the owner "NixOS" and the type 0x63a86cb6.  Its descriptor is
   a sequence of pairs of strings, a needed string and a list, and ends with
   an empty string.  The elements of a list are separated by colons:
   "=PATH" is a file to open, "?DIRECTORY" a directory to search, and "?" the
   current directory.

   A note can be corrupt.  Nothing is read outside of the part of the segment
   that is loaded from the file, and the descriptor is checked as a whole
   before it is used.  After that every string is known to end, so lookups
   need no bounds and return pointers into the object.  */

#include <elf.h>
#include <link.h>
#include <string.h>

#include "dl-resolution.h"

#define NOTE_TYPE 0x63a86cb6
static const char note_owner[] = "NixOS";

/* Return the number of bytes of *NOTE, or 0 if not all of them are loaded
   from the file.  There is no sum of an address and a size, because it could
   overflow.  */
static size_t
loaded_bytes (const ElfW(Phdr) *note, const ElfW(Phdr) *phdr, size_t phnum)
{
  for (size_t i = 0; i < phnum; ++i)
    {
      ElfW(Addr) start = note->p_vaddr - phdr[i].p_vaddr;
      if (phdr[i].p_type == PT_LOAD && (phdr[i].p_flags & PF_R) != 0
	  && phdr[i].p_filesz <= phdr[i].p_memsz
	  && note->p_vaddr >= phdr[i].p_vaddr && start <= phdr[i].p_filesz
	  && note->p_filesz <= phdr[i].p_filesz - start)
	return note->p_filesz;
    }
  return 0;
}

/* Find the descriptor of the first resolution note in the SIZE bytes at
   SEGMENT.  Return NULL if there is none.  */
static const char *
find_descriptor (const char *segment, size_t size, uint64_t align,
		 size_t *length)
{
  ElfW(Nhdr) header;		/* The segment can be unaligned.  */
  uint64_t at = 0;		/* 32-bit numbers are added to it.  */
  while (at <= size && size - at >= sizeof header)
    {
      memcpy (&header, segment + at, sizeof header);
      const char *owner = segment + at + sizeof header;
      at = (at + sizeof header + header.n_namesz + align - 1) & -align;
      if (at > size || header.n_descsz > size - at)
	return NULL;
      if (header.n_type == NOTE_TYPE && header.n_namesz == sizeof note_owner
	  && memcmp (owner, note_owner, sizeof note_owner) == 0)
	{
	  *length = header.n_descsz;
	  return segment + at;
	}
      at = (at + header.n_descsz + align - 1) & -align;
    }
  return NULL;
}

/* Return true if each element of LIST has a kind, and each '=' a path.  */
static bool
check_list (const char *list)
{
  while (*list != '\0')
    {
      if (*list != '?'
	  && (*list != '=' || list[1] == '\0' || list[1] == ':'))
	return false;
      list = strchrnul (list, ':');
      if (*list == ':' && *++list == '\0')
	return false;
    }
  return true;
}

/* Return true if the descriptor, which has LENGTH bytes, is well-formed.  */
static bool
check_descriptor (const char *descriptor, size_t length)
{
  const char *end = descriptor + length;
  bool is_list = false;
  for (const char *string = descriptor; string < end; is_list = !is_list)
    {
      if (!is_list && *string == '\0')
	return true;
      const char *nul = memchr (string, '\0', end - string);
      if (nul == NULL || (is_list && !check_list (string)))
	return false;
      string = nul + 1;
    }
  return false;
}

const char *
_dl_resolution_find (const ElfW(Phdr) *phdr, size_t phnum, ElfW(Addr) base)
{
  for (size_t i = 0; i < phnum; ++i)
    if (phdr[i].p_type == PT_NOTE)
      {
	size_t length;
	const char *descriptor
	  = find_descriptor ((const char *) (base + phdr[i].p_vaddr),
			     loaded_bytes (&phdr[i], phdr, phnum),
			     /* Linkers write 0, 1 or 4 for 4.  */
			     phdr[i].p_align == 8 ? 8 : 4, &length);
	if (descriptor != NULL)
	  return check_descriptor (descriptor, length) ? descriptor : NULL;
      }
  return NULL;
}

const char *
_dl_resolution_lookup (const char *note, const char *name)
{
  while (*note != '\0')
    {
      const char *list = note + strlen (note) + 1;
      if (strcmp (name, note) == 0)
	return list;
      note = list + strlen (list) + 1;
    }
  return NULL;
}

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

size_t
_dl_resolution_root (const char *path, size_t length, bool is_directory,
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
