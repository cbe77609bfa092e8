/* Resolution notes: where the dependencies of an object are.
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

#ifndef _DL_RESOLUTION_H
#define _DL_RESOLUTION_H 1

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef attribute_hidden	/* Compiled without the rest of glibc.  */
# define attribute_hidden
#endif

/* Bits of the tunable glibc.rtld.resolution.  */
#define DL_RESOLUTION_NOTE 1	/* Read resolution notes.  */

/* A bit of the mode of open_verify: do not wait for the other end of a
   FIFO.  The file is named by a note, which may be wrong.  */
#define __RTLD_RESOLUTION 0x00800000

/* Longest element of a list that is used.  */
#define DL_RESOLUTION_MAX 4096

/* The note of an object, after it was checked.  */
struct dl_resolution_note
{
  const char *pairs;	/* The first needed string; NULL without a note.  */
  uint32_t size;	/* Bytes of the descriptor.  */
  bool sorted;		/* A binary search is possible.  */
  bool align8;		/* The note is padded to 8 bytes, not to 4.  */
};

/* An element of the list for a needed string.  */
struct dl_resolution_element
{
  char kind;		/* '=': a file to open; '?': a directory to search.  */
  const char *path;	/* Ends with ':' or NUL.  */
  size_t length;
};

/* Find the note in the segments PHDR[0] to PHDR[PHNUM - 1] of an object
   that is loaded at BASE.  A note that is not well-formed is ignored.  */
void _dl_resolution_find (struct dl_resolution_note *note,
			  const ElfW(Phdr) *phdr, size_t phnum,
			  ElfW(Addr) base) attribute_hidden;

/* Return the list of NOTE for NAME, or NULL.  */
const char *_dl_resolution_lookup (const struct dl_resolution_note *note,
				   const char *name) attribute_hidden;

/* Remove the first element from *LIST.  Return false if there is none.  */
bool _dl_resolution_next (const char **list,
			  struct dl_resolution_element *element)
     attribute_hidden;

/* Return the length of the package root in the LENGTH bytes at PATH: one of
   the STORES, which are separated by colons, and the next component.  Return
   0 if PATH is not in a package.  A directory can be the root itself.  */
size_t _dl_resolution_root (const char *path, size_t length,
			    bool is_directory, const char *stores)
     attribute_hidden;

#endif /* dl-resolution.h */
