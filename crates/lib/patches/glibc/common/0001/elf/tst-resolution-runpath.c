/* Test that no directory that can change is skipped.
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

/* The run path of the program is DIR1:DIR2, and both have the libraries 1 and
   2.  The directories are not in a store, so libraries can be added to them
   after the note was written.  */

#include "tst-resolution-note.h"

#define DIR1 "$ORIGIN/tst-resolution-dir1"
#define DIR2 "$ORIGIN/tst-resolution-dir2"

NOTE (STRING ("tst-resolution-lib1.so")
      STRING ("=" DIR2 "/tst-resolution-lib1.so")
      STRING ("tst-resolution-lib2.so")
      STRING ("?" DIR1 ":=" DIR2 "/tst-resolution-lib2.so")
      STRING ("tst-resolution-lib3.so")
      STRING ("?" DIR1 "/:?" DIR2));

static int
do_test (void)
{
  /* The list skips DIR1, so it is not used.  */
  TEST_COMPARE_STRING (directory_of ("tst-resolution-lib1.so"),
		       "tst-resolution-dir1");
  TEST_COMPARE_STRING (directory_of ("tst-resolution-lib2.so"),
		       "tst-resolution-dir1");
  TEST_COMPARE_STRING (directory_of ("tst-resolution-lib3.so"),
		       "tst-resolution-dir2");
  return 0;
}

#include <support/test-driver.c>
