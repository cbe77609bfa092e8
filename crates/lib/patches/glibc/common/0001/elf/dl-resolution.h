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

/* Size of the longest path in a list that is used, with its NUL.  */
#define DL_RESOLUTION_MAX 4096

/* Find the note in the segments PHDR[0] to PHDR[PHNUM - 1] of an object
   that is loaded at BASE, and return its first needed string.  Return NULL if
   there is none, or if it is not well-formed.  */
const char *_dl_resolution_find (const ElfW(Phdr) *phdr, size_t phnum,
				 ElfW(Addr) base) attribute_hidden;

/* Return the list of NOTE for NAME, or NULL.  */
const char *_dl_resolution_lookup (const char *note, const char *name)
     attribute_hidden;

/* Return the length of the package root in the LENGTH bytes at PATH: one of
   the STORES, which are separated by colons, and the next component.  Return
   0 if PATH is not in a package.  A directory can be the root itself.  */
size_t _dl_resolution_root (const char *path, size_t length,
			    bool is_directory, const char *stores)
     attribute_hidden;

#endif /* dl-resolution.h */
