/* Test the reader of resolution notes.
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

#include <stdlib.h>
#include <support/check.h>
#include <support/next_to_fault.h>

#include "dl-resolution.c"

/* Put a note with this descriptor at the end of a page, so that a read past
   its end is a fault, and find it.  */
static const char *
find (const char *descriptor, size_t length, size_t align,
      struct support_next_to_fault *ntf)
{
  size_t start = align == 8 ? 24 : 20;
  *ntf = support_next_to_fault_allocate (start + length);
  ElfW(Nhdr) header =
    {
      .n_namesz = sizeof note_owner, .n_descsz = length, .n_type = NOTE_TYPE
    };
  memset (ntf->buffer, 0, start);
  memcpy (ntf->buffer, &header, sizeof header);
  memcpy (ntf->buffer + sizeof header, note_owner, sizeof note_owner);
  memcpy (ntf->buffer + start, descriptor, length);
  ElfW(Phdr) phdr[] =
    {
      { .p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = ntf->length,
	.p_memsz = ntf->length },
      { .p_type = PT_NOTE, .p_filesz = ntf->length, .p_memsz = ntf->length,
	.p_align = align },
    };
  return _dl_resolution_find (phdr, 2, (ElfW(Addr)) ntf->buffer);
}

static const char *
lookup (const char *descriptor, size_t length, const char *name)
{
  static char result[100];
  struct support_next_to_fault ntf;
  const char *note = find (descriptor, length, 4, &ntf);
  const char *list = NULL;
  if (note != NULL)
    list = _dl_resolution_lookup (note, name);
  if (list != NULL)
    list = strcpy (result, list);
  support_next_to_fault_free (&ntf);
  return list;
}

static bool
is_valid (const char *descriptor, size_t length)
{
  struct support_next_to_fault ntf;
  bool result = find (descriptor, length, 4, &ntf) != NULL;
  support_next_to_fault_free (&ntf);
  TEST_COMPARE (find (descriptor, length, 8, &ntf) != NULL, result);
  support_next_to_fault_free (&ntf);
  return result;
}

/* sizeof includes the NUL that ends the descriptor.  */
#define LOOKUP(d, name) lookup (d, sizeof (d), name)
#define IS_VALID(d) is_valid (d, sizeof (d))
#define ROOT(path, dir) \
  _dl_resolution_root (path, strlen (path), dir, "/a/store:/other/")

static int
do_test (void)
{
#define NOTE "a\0=/1\0b\0?\0c\0=/3:?/4\0"
  TEST_COMPARE_STRING (LOOKUP (NOTE, "a"), "=/1");
  TEST_COMPARE_STRING (LOOKUP (NOTE, "b"), "?");
  TEST_COMPARE_STRING (LOOKUP (NOTE, "c"), "=/3:?/4");
  TEST_VERIFY (LOOKUP (NOTE, "d") == NULL);
  TEST_VERIFY (LOOKUP (NOTE, "") == NULL);
  TEST_COMPARE_STRING (LOOKUP ("z\0=/1\0a\0=/2\0", "a"), "=/2");
  TEST_COMPARE_STRING (LOOKUP ("z\0=/1\0z\0=/2\0", "z"), "=/1");
  TEST_COMPARE_STRING (LOOKUP ("=z\0=/1\0a\0\0", "=z"), "=/1");

  TEST_VERIFY (IS_VALID (""));
  TEST_VERIFY (IS_VALID ("a\0=/1\0"));
  TEST_VERIFY (!IS_VALID ("a\0/1\0"));
  TEST_VERIFY (!IS_VALID ("a\0=\0"));
  TEST_VERIFY (!IS_VALID ("a\0=/1:\0"));
  TEST_VERIFY (!IS_VALID ("a\0=/1:=:?\0"));
  for (size_t length = 0; length < sizeof NOTE; ++length)
    TEST_VERIFY (!is_valid (NOTE, length));

  TEST_COMPARE (ROOT ("/a/store/package/lib/x", false), 16);
  TEST_COMPARE (ROOT ("/other/package/lib", true), 14);
  TEST_COMPARE (ROOT ("/other/package", true), 14);
  TEST_COMPARE (ROOT ("/other/package", false), 0);
  TEST_COMPARE (ROOT ("/other/", true), 0);
  TEST_COMPARE (ROOT ("/other/..", true), 0);
  TEST_COMPARE (ROOT ("/other//p/x", true), 0);
  TEST_COMPARE (ROOT ("/other/p/x/../../y", true), 0);
  TEST_COMPARE (ROOT ("/other/p/./x//../..", true), 0);
  TEST_COMPARE (ROOT ("/other/p/x/../y", true), 8);
  TEST_COMPARE (ROOT ("/others/p/x", true), 0);
  TEST_COMPARE (ROOT ("relative", true), 0);
  return 0;
}

#include <support/test-driver.c>
