/* Test lookups with the resolution note of the program.
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

/* The run path of the program is DIR1:DIR2.  The libraries 1 and 2 are in
   both, library 3 is in DIR2, and library 1 is in DIR3 as well.  Library 4 is
   in DIR1; in DIR2 a file with its name is not an ELF file.  The test writes
   its own note anew for each lookup.  */

#include <array_length.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support/check.h>
#include <support/xdlfcn.h>

#ifndef IS_RPATH		/* The run path is DT_RPATH.  */
# define IS_RPATH false
#endif
#ifndef IS_ENABLED		/* Notes are read.  */
# define IS_ENABLED true
#endif
#ifndef IS_INHIBITED		/* The run path is ignored.  */
# define IS_INHIBITED false
#endif
#ifndef IS_AUDITED		/* By tst-resolution-auditmod.so.  */
# define IS_AUDITED false
#endif
#ifndef PREFIX			/* Of the directories.  */
# define PREFIX "$ORIGIN/"
#endif

#define DIR1 PREFIX "tst-resolution-dir1"
#define DIR2 PREFIX "tst-resolution-dir2"
#define DIR3 PREFIX "tst-resolution-dir3"
#define LIB1 "tst-resolution-lib1.so"
#define LIB2 "tst-resolution-lib2.so"
#define LIB3 "tst-resolution-lib3.so"
#define LIB4 "tst-resolution-lib4.so"
#define MOD "tst-resolution-mod.so"
#define COMPLETE "/complete/1\0?\0"

enum { size = 512 };		/* Of the descriptor.  */
asm (".pushsection .note.nixos.ldcache, \"aw\", %note\n"
     ".balign 4\n"
     "segment:\n"
     ".long 6, 512, 0x63a86cb6\n"
     ".asciz \"NixOS\"\n"
     ".balign 4\n"
     ".zero 512\n"
     ".popsection");
enum { header = 20 };
extern char segment[header + size] __attribute__ ((visibility ("hidden")));

/* Return the directory from which NAME is loaded into the namespace NS, or
   NULL.  */
static const char *
directory_of (const char *name, Lmid_t ns)
{
  static char result[PATH_MAX];
  void *handle = dlmopen (ns, name, RTLD_NOW);
  if (handle == NULL)
    {
      const char *error = dlerror ();
      TEST_VERIFY (strstr (error, "cannot open shared object file") != NULL);
      return NULL;
    }
  struct link_map *map;
  TEST_COMPARE (dlinfo (handle, RTLD_DI_LINKMAP, &map), 0);
  char *end = strrchr (map->l_name, '/');
  TEST_VERIFY_EXIT (end != NULL && end - map->l_name < sizeof result);
  while (end > map->l_name && end[-1] == '/')
    --end;
  memcpy (result, map->l_name, end - map->l_name);
  result[end - map->l_name] = '\0';
  xdlclose (handle);
  end = strrchr (result, '/');
  return end == NULL ? result : end + 1;
}

/* Write the descriptor, and check that NAME is loaded from EXPECTED, or from
   WITHOUT if notes are not read, into this namespace and into a new one.  */
static void
check (const char *new, size_t length, const char *name, const char *expected,
       const char *without)
{
  TEST_VERIFY_EXIT (length <= size);
  memset (segment + header, 0xff, size);
  memcpy (segment + header, new, length);
  if (!IS_ENABLED)
    expected = IS_INHIBITED ? NULL : without;
  printf ("info: %s is expected in %s\n", name, expected ?: "no directory");
  TEST_COMPARE_STRING (directory_of (name, LM_ID_BASE), expected);
  TEST_COMPARE_STRING (directory_of (name, LM_ID_NEWLM), expected);
}

/* sizeof includes the NUL that ends the descriptor.  */
#define CHECK(note, name, expected, without) \
  check (note, sizeof (note), name, "tst-resolution-" expected, \
	 "tst-resolution-" without)
#define IGNORED(note) CHECK (note, LIB1, "dir1", "dir1")

static void
test_lists (void)
{
  CHECK (COMPLETE LIB1 "\0=" DIR2 "/" LIB1 "\0", LIB1, "dir2", "dir1");
  CHECK (COMPLETE LIB1 "\0=" DIR2 "///" LIB1 "\0", LIB1, "dir2", "dir1");
  CHECK (COMPLETE LIB1 "\0?" DIR2 "/\0", LIB1, "dir2", "dir1");
  CHECK (COMPLETE LIB3 "\0=" DIR1 "/" LIB3 ":=" DIR2 "/" LIB3 "\0",
	 LIB3, "dir2", "dir2");
  CHECK (COMPLETE LIB2 "\0?" DIR2 ":=" DIR1 "/" LIB2 "\0" LIB1 "\0?" DIR1 "\0",
	 LIB2, "dir2", "dir1");
  CHECK (COMPLETE LIB1 "\0=" DIR2 "/" LIB1 "\0" LIB1 "\0=" DIR1 "/" LIB1 "\0",
	 LIB1, "dir2", "dir1");
  /* Nothing is there, and the run path is searched.  */
  CHECK (COMPLETE LIB3 "\0=" DIR1 "/" LIB3 "\0", LIB3, "dir2", "dir2");
  CHECK (COMPLETE LIB2 "\0=" DIR2 "/" LIB2 "\0", LIB1, "dir1", "dir1");
  /* That is no error either.  */
  CHECK (COMPLETE LIB4 "\0=" DIR2 "/" LIB4 "\0", LIB4, "dir1", "dir1");

  /* The list ends at what is not in the run path.  */
  CHECK (COMPLETE LIB1 "\0=" DIR3 "/" LIB1 ":=" DIR2 "/" LIB1 "\0",
	 LIB1, "dir1", "dir1");
  CHECK (COMPLETE LIB1 "\0?" DIR3 ":=" DIR2 "/" LIB1 "\0",
	 LIB1, "dir1", "dir1");
  CHECK (COMPLETE LIB1 "\0=" DIR2 "/" LIB2 "\0", LIB1, "dir1", "dir1");
  CHECK (COMPLETE LIB1 "\0=" DIR2 "/x" LIB1 "\0", LIB1, "dir1", "dir1");
  CHECK (COMPLETE LIB1 "\0=" LIB1 "\0", LIB1, "dir1", "dir1");
  CHECK (COMPLETE LIB1 "\0?:=" DIR2 "/" LIB1 "\0", LIB1, "dir1", "dir1");
}

static void
test_ignored (void)
{
  static const char note[] = COMPLETE LIB1 "\0=" DIR2 "/" LIB1 "\0";
  for (size_t length = 0; length < sizeof note; ++length)
    check (note, length, LIB1, "tst-resolution-dir1", "tst-resolution-dir1");
  IGNORED (LIB1 "\0=" DIR2 "/" LIB1 "\0");
  IGNORED ("/complete/2\0?\0" LIB1 "\0=" DIR2 "/" LIB1 "\0");
  IGNORED ("/complete/1\0=\0" LIB1 "\0=" DIR2 "/" LIB1 "\0");
  IGNORED (COMPLETE LIB1 "\0=" DIR2 "/" LIB1 "\0" LIB2 "\0" DIR2 "\0");
  IGNORED (COMPLETE LIB1 "\0=" DIR2 "/" LIB1 ":\0");
  IGNORED (COMPLETE LIB1 "\0=" DIR2 "/" LIB1 ":=\0");
  IGNORED (COMPLETE LIB1 "\0=" DIR2 "/" LIB1 "\0" LIB2 "\0\0");
}

static void
test_places (void)
{
  static const char note[] = (COMPLETE LIB1 "\0=" DIR2 "/" LIB1 "\0"
			      MOD "\0=" DIR1 "/" MOD "\0");
  CHECK (note, LIB1, "dir2", "dir1");

  /* This library is in a directory of the library path as well, which comes
     after DT_RPATH and before DT_RUNPATH.  */
  const char *directory = directory_of (MOD, LM_ID_BASE);
  TEST_COMPARE (strcmp (directory, "tst-resolution-dir1") == 0, IS_RPATH);
}

/* The auditor refuses library 1 in DIR2.  */
static void
test_audited (void)
{
  CHECK (COMPLETE LIB1 "\0=" DIR2 "/" LIB1 "\0", LIB1, "dir1", "dir1");
  CHECK (COMPLETE LIB1 "\0?" DIR2 "\0", LIB1, "dir1", "dir1");
  CHECK (COMPLETE LIB2 "\0=" DIR2 "/" LIB2 "\0", LIB2, "dir2", "dir1");
}

/* A damaged note never prevents that the library is loaded.  */
static void
test_damaged (void)
{
  static const char note[] = (COMPLETE LIB1 "\0?" DIR1 ":=" DIR2 "/" LIB1 "\0"
			      LIB2 "\0=" DIR2 "/" LIB2 "\0");
  static const char bytes[] = { 0, -1, '=', '?', ':', '/', '1', 'l', 1 };
  char whole[header + size];
  memset (segment + header, 0xff, size);
  memcpy (segment + header, note, sizeof note);
  memcpy (whole, segment, sizeof whole);
  srand (1);
  for (int i = 0; i < 5000; ++i)
    {
      memcpy (segment, whole, sizeof whole);
      for (int n = rand () % 4; n >= 0; --n)
	segment[rand () % (header + sizeof note)]
	  = bytes[rand () % array_length (bytes)];
      const char *directory = directory_of (LIB1, LM_ID_BASE);
      TEST_VERIFY_EXIT (directory != NULL);
      TEST_VERIFY (strcmp (directory, "tst-resolution-dir1") == 0
		   || strcmp (directory, "tst-resolution-dir2") == 0);
    }
}

static int
do_test (void)
{
  if (IS_AUDITED)
    {
      test_audited ();
      return 0;
    }
#ifdef IS_SECURE
  if (secure_getenv ("LC_ALL") != NULL)
    FAIL_UNSUPPORTED ("there is no tunable glibc.rtld.enable_secure");
#endif
  test_lists ();
  test_ignored ();
  test_places ();
  if (!IS_INHIBITED)
    test_damaged ();
  return 0;
}

#include <support/test-driver.c>
