/* Reader of resolution notes.
   SPDX-License-Identifier: LGPL-2.1-or-later

   The note: owner "NixOS", type 0x63a86cb6, in a PT_NOTE segment that is
   loaded.  Its descriptor is a sequence of pairs of NUL-terminated strings,
   needed and list, closed by an empty string.  A list is ':'-separated;
   an element is "=PATH", a file to open, or "?DIR", a directory to search,
   where "?" alone is the current directory.

   Any byte of it may be wrong.  Two things make that harmless:

   - Nothing is read outside of what is mapped from the file.  The bytes of
     a PT_NOTE count only as far as one readable PT_LOAD covers them with
     file contents (loaded_bytes), and each length in them is compared with
     the bytes left before it is added to anything (find_descriptor).

   - A descriptor is read once as a whole before it is believed (check):
     every string ends inside it, every element has a kind, and the closing
     string is there.  Later lookups walk strings that are known to end.

   So a walk over the note's strings needs no bound but the closing string,
   and a lookup can hand out pointers into the object instead of copies.
   The file compiles apart from glibc, which is how it is fuzzed.  */

#include <elf.h>
#include <link.h>
#include <string.h>

#include <dl-resolution.h>

#define NOTE_TYPE 0x63a86cb6
static const char note_owner[] = "NixOS";

/* The bytes of the PT_NOTE *NOTE that are mapped from the file.  Sums of an
   address and a size are avoided, for a hostile header makes them wrap.  */
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

/* The bytes from AT up to the next multiple of ALIGN, a power of two.  */
static size_t
padding (size_t at, size_t align)
{
  return -at & (align - 1);
}

/* Find the descriptor of the first resolution note in the SIZE bytes at
   SEGMENT, whose notes are padded to ALIGN.  At most SIZE bytes are left at
   any time, so each sum below stays under SIZE, which fits.  */
static const char *
find_descriptor (const char *segment, size_t size, size_t align,
		 uint32_t *length)
{
  size_t at = 0;
  while (size - at >= sizeof (ElfW(Nhdr)))
    {
      ElfW(Nhdr) header;	/* The segment need not be aligned.  */
      memcpy (&header, segment + at, sizeof header);
      at += sizeof header;

      const char *owner = segment + at;
      if (header.n_namesz > size - at)
	break;
      at += header.n_namesz;
      if (padding (at, align) > size - at)
	break;
      at += padding (at, align);

      if (header.n_descsz > size - at)
	break;
      if (header.n_type == NOTE_TYPE && header.n_namesz == sizeof note_owner
	  && memcmp (owner, note_owner, sizeof note_owner) == 0)
	{
	  *length = header.n_descsz;
	  return segment + at;
	}
      at += header.n_descsz;
      if (padding (at, align) > size - at)
	break;
      at += padding (at, align);
    }
  return NULL;
}

/* The end of the string at STRING, its NUL, or NULL where END comes first.  */
static const char *
string_end (const char *string, const char *end)
{
  return memchr (string, '\0', end - string);
}

/* How much of STRING stands before the first STOP or its end.  */
static size_t
part (const char *string, char stop)
{
  return strchrnul (string, stop) - string;
}

static bool
is_kind (char c)
{
  return c == '=' || c == '?';
}

/* Whether each element of LIST has a kind, and each '=' a path.  */
static bool
check_list (const char *list)
{
  while (*list != '\0')
    {
      if (!is_kind (*list)
	  || (*list == '=' && (list[1] == '\0' || list[1] == ':')))
	return false;
      list += part (list, ':');
      if (*list == ':' && *++list == '\0')
	return false;		/* An element without a kind after all.  */
    }
  return true;
}

/* Read the descriptor in full and say in *NOTE what it holds.  A binary
   search steps to the middle byte and back to the needed string before it.
   It tells a needed string from a list by the first character, so a note
   counts as sorted only where that tells them apart everywhere.  */
static void
check (struct dl_resolution_note *note, const char *descriptor, uint32_t size)
{
  const char *end = descriptor + size;
  const char *previous = NULL;
  bool sorted = true;
  for (const char *needed = descriptor; needed < end;)
    {
      if (*needed == '\0')
	{
	  note->pairs = descriptor;
	  note->size = needed - descriptor;
	  note->sorted = sorted;
	  return;
	}
      const char *needed_end = string_end (needed, end);
      if (needed_end == NULL)
	return;
      const char *list = needed_end + 1;
      const char *list_end = string_end (list, end);
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
  note->looked_for = 1;
  for (size_t i = 0; i < phnum; ++i)
    {
      if (phdr[i].p_type != PT_NOTE)
	continue;
      /* Notes are padded to 4, in some 64-bit files to 8.  Linkers write 0
	 and 1 as well where they mean 4, and so may anybody anything.  */
      size_t align = phdr[i].p_align == 8 ? 8 : 4;
      const char *segment = (const char *) (base + phdr[i].p_vaddr);
      uint32_t length;
      const char *descriptor
	= find_descriptor (segment, loaded_bytes (&phdr[i], phdr, phnum),
			   align, &length);
      if (descriptor != NULL)
	{
	  check (note, descriptor, length);
	  return;
	}
    }
}

/* What follows the string at STRING, which is known to end.  */
static const char *
after (const char *string)
{
  return string + strlen (string) + 1;
}

/* The first pair for NAME, one pair after the other.  */
static const char *
linear_lookup (const struct dl_resolution_note *note, const char *name)
{
  const char *end = note->pairs + note->size;
  for (const char *needed = note->pairs; needed < end;)
    {
      const char *list = after (needed);
      if (strcmp (name, needed) == 0)
	return list;
      needed = after (list);
    }
  return NULL;
}

/* The needed string of the pair that the byte at AT belongs to; FIRST is
   the needed string of the first pair.  */
static const char *
pair_at (const char *first, const char *at)
{
  do
    while (at > first && at[-1] != '\0')
      --at;
  while (is_kind (*at) && at-- > first);
  return at;
}

/* LOW and HIGH are always where a pair begins (or all end), and each round
   leaves out at least the pair in the middle.  */
static const char *
binary_lookup (const struct dl_resolution_note *note, const char *name)
{
  const char *low = note->pairs;
  const char *high = low + note->size;
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
_dl_resolution_next (const char **list, struct dl_resolution_answer *answer)
{
  if (**list == '\0')
    return false;
  answer->kind = **list;
  answer->path = *list + 1;
  answer->length = part (answer->path, ':');
  *list = answer->path + answer->length;
  if (**list == ':')
    ++*list;
  return true;
}

/* Whether a component of a path is "", "." or "..".  */
static bool
is_dots (const char *component, size_t length)
{
  return (length == 0 || (length == 1 && component[0] == '.')
	  || (length == 2 && component[0] == '.' && component[1] == '.'));
}

/* Whether PATH, which follows "PREFIX/PACKAGE/", comes back out of the
   package.  Symbolic links are not looked at: whoever could set one inside
   a package could have changed the package.  */
static bool
leaves_package (const char *path)
{
  size_t depth = 0;
  while (*path != '\0')
    {
      size_t length = part (path, '/');
      if (!is_dots (path, length))
	++depth;
      else if (length == 2 && depth-- == 0)
	return true;
      path += length;
      if (*path == '/')
	++path;
    }
  return false;
}

size_t
_dl_resolution_root (const char *path, bool is_directory,
		     const char *prefixes)
{
  while (*prefixes != '\0')
    {
      size_t length = part (prefixes, ':');
      const char *next = prefixes + length + (prefixes[length] == ':');
      while (length > 0 && prefixes[length - 1] == '/')
	--length;

      /* "/" alone is no store: everything would be trusted.  */
      if (length > 0 && prefixes[0] == '/'
	  && strncmp (path, prefixes, length) == 0 && path[length] == '/')
	{
	  const char *package = path + length + 1;
	  size_t name = part (package, '/');
	  if (!is_dots (package, name)
	      && (package[name] == '/' || is_directory)
	      && !leaves_package (package + name + (package[name] == '/')))
	    return length + 1 + name;
	}
      prefixes = next;
    }
  return 0;
}
