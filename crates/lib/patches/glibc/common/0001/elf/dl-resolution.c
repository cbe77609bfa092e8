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

/* Return the number of bytes of *NOTE that are loaded from the file.  There
   is no sum of an address and a size, because it could overflow.  */
static size_t
loaded_bytes (const ElfW(Phdr) *note, const ElfW(Phdr) *phdr, size_t phnum)
{
  size_t size = note->p_filesz;
  if (note->p_memsz < size)
    size = note->p_memsz;
  for (size_t i = 0; i < phnum; ++i)
    if (phdr[i].p_type == PT_LOAD && (phdr[i].p_flags & PF_R) != 0
	&& phdr[i].p_filesz <= phdr[i].p_memsz
	&& note->p_vaddr >= phdr[i].p_vaddr)
      {
	ElfW(Addr) start = note->p_vaddr - phdr[i].p_vaddr;
	if (start <= phdr[i].p_filesz && size <= phdr[i].p_filesz - start)
	  return size;
      }
  return 0;
}

/* Advance *AT by LENGTH, and to a multiple of ALIGN.  Return false if fewer
   than LENGTH bytes are left of SIZE.  */
static bool
advance (size_t *at, size_t length, size_t align, size_t size)
{
  if (length > size - *at)
    return false;
  *at += length;
  size_t padding = -*at & (align - 1);
  *at = padding > size - *at ? size : *at + padding;
  return true;
}

/* Find the descriptor of the first resolution note in the SIZE bytes at
   SEGMENT.  Return NULL if there is none.  */
static const char *
find_descriptor (const char *segment, size_t size, size_t align,
		 uint32_t *length)
{
  size_t at = 0;
  while (size - at >= sizeof (ElfW(Nhdr)))
    {
      ElfW(Nhdr) header;	/* The segment can be unaligned.  */
      memcpy (&header, segment + at, sizeof header);
      at += sizeof header;

      const char *owner = segment + at;
      if (!advance (&at, header.n_namesz, align, size))
	return NULL;
      const char *descriptor = segment + at;
      if (!advance (&at, header.n_descsz, align, size))
	return NULL;
      if (header.n_type == NOTE_TYPE && header.n_namesz == sizeof note_owner
	  && memcmp (owner, note_owner, sizeof note_owner) == 0)
	{
	  *length = header.n_descsz;
	  return descriptor;
	}
    }
  return NULL;
}

static bool
is_kind (char c)
{
  return c == '=' || c == '?';
}

/* Return true if each element of LIST has a kind, and each '=' a path.  */
static bool
check_list (const char *list)
{
  while (*list != '\0')
    {
      if (!is_kind (*list)
	  || (*list == '=' && (list[1] == '\0' || list[1] == ':')))
	return false;
      list = strchrnul (list, ':');
      if (*list == ':' && *++list == '\0')
	return false;
    }
  return true;
}

/* Read the descriptor from start to end, and describe it in *NOTE if it is
   well-formed.  binary_lookup finds the start of a pair from a byte in its
   middle.  For that it tells needed strings from lists by their first
   character, so a note only counts as sorted if this is possible, and if
   nothing follows the empty string.  */
static void
check_descriptor (struct dl_resolution_note *note, const char *descriptor,
		  uint32_t size)
{
  const char *end = descriptor + size;
  const char *previous = NULL;
  bool sorted = true;
  for (const char *needed = descriptor; needed < end;)
    {
      if (*needed == '\0')
	{
	  note->pairs = descriptor;
	  note->size = size;
	  note->sorted = sorted && needed + 1 == end;
	  return;
	}
      const char *list = memchr (needed, '\0', end - needed);
      if (list == NULL)
	return;
      ++list;
      const char *list_end = memchr (list, '\0', end - list);
      if (list_end == NULL || !check_list (list))
	return;
      if (is_kind (*needed) || !is_kind (*list)
	  || (previous != NULL && strcmp (previous, needed) >= 0))
	sorted = false;
      previous = needed;
      needed = list_end + 1;
    }
}

void
_dl_resolution_find (struct dl_resolution_note *note, const ElfW(Phdr) *phdr,
		     size_t phnum, ElfW(Addr) base)
{
  note->pairs = NULL;
  for (size_t i = 0; i < phnum; ++i)
    {
      if (phdr[i].p_type != PT_NOTE)
	continue;
      /* Linkers write 0, 1 or 4 for an alignment of 4.  */
      size_t align = phdr[i].p_align == 8 ? 8 : 4;
      uint32_t length;
      const char *descriptor
	= find_descriptor ((const char *) (base + phdr[i].p_vaddr),
			   loaded_bytes (&phdr[i], phdr, phnum), align,
			   &length);
      if (descriptor != NULL)
	{
	  note->align8 = align == 8;
	  check_descriptor (note, descriptor, length);
	  return;
	}
    }
}

/* Return what follows STRING.  */
static const char *
after (const char *string)
{
  return string + strlen (string) + 1;
}

static const char *
linear_lookup (const struct dl_resolution_note *note, const char *name)
{
  for (const char *needed = note->pairs; *needed != '\0';)
    {
      const char *list = after (needed);
      if (strcmp (name, needed) == 0)
	return list;
      needed = after (list);
    }
  return NULL;
}

/* Return the start of the pair with the byte AT.  FIRST is the first pair.  */
static const char *
pair_at (const char *first, const char *at)
{
  do
    while (at > first && at[-1] != '\0')
      --at;
  while (is_kind (*at) && at-- > first);
  return at;
}

static const char *
binary_lookup (const struct dl_resolution_note *note, const char *name)
{
  const char *low = note->pairs;
  const char *high = low + note->size - 1;
  while (low < high)
    {
      const char *needed = pair_at (low, low + (high - low) / 2);
      const char *list = after (needed);
      int order = strcmp (name, needed);
      if (order == 0)
	return list;
      if (order < 0)
	high = needed;
      else
	low = after (list);
    }
  return NULL;
}

const char *
_dl_resolution_lookup (const struct dl_resolution_note *note,
		       const char *name)
{
  if (note->pairs == NULL)
    return NULL;
  return note->sorted ? binary_lookup (note, name)
		      : linear_lookup (note, name);
}

bool
_dl_resolution_next (const char **list,
		     struct dl_resolution_element *element)
{
  if (**list == '\0')
    return false;
  element->kind = **list;
  element->path = *list + 1;
  const char *end = strchrnul (element->path, ':');
  element->length = end - element->path;
  *list = end + (*end == ':');
  return true;
}

/* Return true if a component of a path is "", "." or "..".  */
static bool
is_dots (const char *component, size_t length)
{
  return length <= 2 && memcmp (component, "..", length) == 0;
}

/* Return the end of the component at PATH, a slash or END.  */
static const char *
component_end (const char *path, const char *end)
{
  const char *slash = memchr (path, '/', end - path);
  return slash == NULL ? end : slash;
}

/* Return true if PATH, which is relative to a package, leads out of it.
   Symbolic links do not matter: who can create one in a package can change
   the package.  */
static bool
leaves_package (const char *path, const char *end)
{
  size_t depth = 0;
  while (path < end)
    {
      const char *next = component_end (path, end);
      if (!is_dots (path, next - path))
	++depth;
      else if (next - path == 2 && depth-- == 0)
	return true;
      path = next + (next < end);
    }
  return false;
}

size_t
_dl_resolution_root (const char *path, size_t length, bool is_directory,
		     const char *stores)
{
  const char *end = path + length;
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
	  const char *package = path + store + 1;
	  const char *rest = component_end (package, end);
	  if (!is_dots (package, rest - package)
	      && (rest < end || is_directory)
	      && !leaves_package (rest + (rest < end), end))
	    return rest - path;
	}
      stores = next + (*next == ':');
    }
  return 0;
}
