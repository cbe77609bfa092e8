/* Helpers of the tests of resolution notes.
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

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <support/check.h>
#include <support/xdlfcn.h>

/* Put a note with these strings in this object.  */
#define STRING(string) ".asciz \"" string "\"\n"
#define NOTE(strings)						\
  asm (".pushsection .note.nixos.ldcache, \"a\", %note\n"	\
       ".balign 4\n"						\
       ".long 6\n"						\
       ".long 2f - 1f\n"					\
       ".long 0x63a86cb6\n"					\
       STRING ("NixOS")						\
       ".balign 4\n"						\
       "1:\n"							\
       strings							\
       STRING ("")						\
       "2:\n"							\
       ".balign 4\n"						\
       ".popsection\n")

/* Return the directory from which NAME is loaded, or NULL.  */
static const char *
directory_of (const char *name)
{
  static char result[PATH_MAX];
  void *handle = dlopen (name, RTLD_NOW);
  if (handle == NULL)
    {
      const char *error = dlerror ();
      printf ("info: %s\n", error);
      TEST_VERIFY (strstr (error, "cannot open shared object file") != NULL);
      return NULL;
    }
  struct link_map *map;
  TEST_COMPARE (dlinfo (handle, RTLD_DI_LINKMAP, &map), 0);
  printf ("info: %s is %s\n", name, map->l_name);
  char *end = strrchr (map->l_name, '/');
  TEST_VERIFY_EXIT (end != NULL && end - map->l_name < sizeof result);
  memcpy (result, map->l_name, end - map->l_name);
  result[end - map->l_name] = '\0';
  xdlclose (handle);
  end = strrchr (result, '/');
  return end == NULL ? result : end + 1;
}
