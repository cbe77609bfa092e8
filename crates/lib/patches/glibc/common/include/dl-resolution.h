/* Resolution notes and package roots: what the dynamic loader reads of them.
   SPDX-License-Identifier: LGPL-2.1-or-later

   A resolution note is a table inside an object.  For each library that the
   object needs it names the file that a search would find, so that the
   loader can open that file and search nothing.  elf/dl-resolution.c reads
   notes and allocates nothing; elf/dl-resolution-open.h, part of dl-load.c,
   acts on them; elf/dl-resolution-cache.h, part of dl-cache.c, does for the
   loader cache of a package what glibc does for /etc/ld.so.cache.

   Whoever includes this must have ElfW from <link.h>.  */

#ifndef _DL_RESOLUTION_H
#define _DL_RESOLUTION_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef attribute_hidden	/* Compiled apart from glibc.  */
# define attribute_hidden
#endif

/* Values of the tunable glibc.rtld.resolution.  */
enum
{
  dl_resolution_note = 1,	/* Read resolution notes.  */
  dl_resolution_cache = 2,	/* Read the loader caches of packages.  */
};

/* Ored to the mode of open_verify: the file is named by a note or a cache
   that may be wrong, so its open must not wait for a FIFO's other end.  */
#define __RTLD_RESOLUTION	0x00800000

/* Longest path that is taken from a note, its NUL included.  Paths are
   copied to the stack where they are not NUL-terminated.  */
#define DL_RESOLUTION_PATH_MAX	4096

/* What is known about the note of one object.  All zero: nothing yet.  */
struct dl_resolution_note
{
  const char *pairs;	/* First needed string; NULL where there is no note. */
  uint32_t size;	/* Bytes from there up to the closing empty string.  */
  uint8_t looked_for;	/* The object's segments have been read.  */
  uint8_t sorted;	/* A binary search finds what a linear one finds.  */
  uint8_t steady;	/* No directory of the run path may change, for each
			   lies in a package of a store.  */
};

/* One element of the list that a note has for a needed string.  */
struct dl_resolution_answer
{
  char kind;		/* '=': a file to open; '?': a directory to search.  */
  const char *path;	/* After the kind; ends with NUL or with ':'.  */
  size_t length;	/* Without that end.  */
};

/* Look for a note in the segments PHDR[0..PHNUM) of an object loaded at
   BASE, and fill in *NOTE.  A note that is not well-formed is none.  */
extern void _dl_resolution_find (struct dl_resolution_note *note,
				 const ElfW(Phdr) *phdr, size_t phnum,
				 ElfW(Addr) base) attribute_hidden;

/* The list that NOTE has for NAME, or NULL.  */
extern const char *_dl_resolution_lookup (const struct dl_resolution_note *,
					  const char *name) attribute_hidden;

/* Take the next element off *LIST, which _dl_resolution_lookup returned.
   False at its end.  */
extern bool _dl_resolution_next (const char **list,
				 struct dl_resolution_answer *)
  attribute_hidden;

/* The length of the package root of the directory or file PATH: one of the
   ':'-separated PREFIXES and the component after it.  0 where PATH does not
   lie below such a root, or would leave it by "..".  */
extern size_t _dl_resolution_root (const char *path, bool is_directory,
				   const char *prefixes) attribute_hidden;

/* The file that the loader cache of the package at PATH[0..ROOT) has for
   NAME, or NULL.  The string stays valid.  */
extern const char *_dl_package_cache_lookup (const char *name,
					     const char *path, size_t root)
  attribute_hidden;

#endif /* dl-resolution.h */
