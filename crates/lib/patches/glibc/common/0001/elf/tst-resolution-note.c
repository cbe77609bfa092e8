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

/* The program has no run path, so only the note can lead to a library.  */

#include "tst-resolution-note.h"

#define DIR1 "$ORIGIN/tst-resolution-dir1"
#define DIR2 "$ORIGIN/tst-resolution-dir2"

/* The strings are not sorted.  */
NOTE (STRING ("tst-resolution-lib3.so")
      STRING ("=" DIR2 "/tst-resolution-lib3.so")
      STRING ("tst-resolution-lib1.so")
      STRING ("=" DIR1 "/missing.so:=" DIR1 "/tst-resolution-lib1.so")
      STRING ("tst-resolution-lib2.so")
      STRING ("?$ORIGIN/missing:?" DIR2 ":=" DIR1 "/tst-resolution-lib2.so")
      STRING ("missing.so") STRING ("=" DIR1 "/missing.so")
      STRING ("not-elf.so") STRING ("=" DIR1 "/../tst-resolution-note.out")
      STRING ("directory.so") STRING ("=" DIR1)
      STRING ("relative.so") STRING ("=tst-resolution-mod.so")
      STRING ("empty.so") STRING (""));

static int
do_test (void)
{
  TEST_COMPARE_STRING (directory_of ("tst-resolution-lib3.so"),
		       "tst-resolution-dir2");
  TEST_COMPARE_STRING (directory_of ("tst-resolution-lib1.so"),
		       "tst-resolution-dir1");
  TEST_COMPARE_STRING (directory_of ("tst-resolution-lib2.so"),
		       "tst-resolution-dir2");

  /* The plain search does not find these either.  */
  TEST_VERIFY (directory_of ("missing.so") == NULL);
  TEST_VERIFY (directory_of ("not-elf.so") == NULL);
  TEST_VERIFY (directory_of ("directory.so") == NULL);
  TEST_VERIFY (directory_of ("relative.so") == NULL);
  TEST_VERIFY (directory_of ("empty.so") == NULL);
  TEST_VERIFY (directory_of ("not-in-the-note.so") == NULL);
  return 0;
}

#include <support/test-driver.c>
