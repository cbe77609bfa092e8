/* `.note.nixos.ldcache` (docs/note-format.md): in a PT_NOTE, owner "NixOS", pairs of a needed
   string and a list, each ended by a NUL. A list is `:`-separated; `=PATH` is the file to open.
   Any other element (`?DIR`) is a search, which is left to the loader. */
#include "note.h"
#include "condition.h"
#include "process.h"
#include "system.h"

#define PT_NOTE 4u
#define PF_R 4u
#define NOTE_TYPE 0x63a86cb6u
#define PAGE 4096u

/* Returns the descriptor of the note in one segment, with its length in *LENGTH. */
static const char *
find_descriptor (const unsigned char *notes, size_t size, size_t *length)
{
  while (size >= 12)
    {
      uint32_t words[3];
      memcpy (words, notes, sizeof words);
      size_t name = ((size_t) words[0] + 3) & ~(size_t) 3, desc = words[1];
      if (words[0] > size || desc > size || 12 + name + desc > size)
        return NULL;
      if (words[2] == NOTE_TYPE && words[0] == 6 && memcmp (notes + 12, "NixOS", 6) == 0)
        {
          *length = desc;
          return (const char *) notes + 12 + name;
        }
      size_t whole = 12 + name + ((desc + 3) & ~(size_t) 3);
      if (whole >= size)
        return NULL;
      notes += whole;
      size -= whole;
    }
  return NULL;
}

static const char *
find_list (const char *descriptor, size_t length, const char *needed)
{
  /* Only strings that end within it. */
  while (length > 0 && descriptor[length - 1] != '\0')
    length--;
  for (const char *name = descriptor, *end = name + length; name < end && *name != '\0';)
    {
      const char *list = name + strlen (name) + 1;
      if (list < end && text_equal (name, needed))
        return list;
      name = list < end ? list + strlen (list) + 1 : end;
    }
  return NULL;
}

/* Copies the first element of a list, if it is an object: with an answer that the loader cannot
   load the program would end, while the search would continue. */
static const char *
first_file (const char *list)
{
  static char path[PAGE] BUFFER = { 0 };
  size_t length = 0;
  if (list[0] != '=' || list[1] != '/')
    return NULL;
  for (list++; list[length] != '\0' && list[length] != ':'; length++)
    if (list[length] == '$' || length == sizeof path - 1)
      return NULL;
  memcpy (path, list, length);
  path[length] = '\0';
  return file_fits (path) ? path : NULL;
}

/* True if the search along the run path reaches the directory of FILE without a directory that
   may change. patchelf leaves out of its lists each directory that lacks the library when it
   writes the note; a library that is added there later is found by the search alone. nixpkgs'
   loader declines such a note too (the fixture prog-mutable of the tests of its ldcache.patch). */
static int
is_settled (const char *run_path, const char *file)
{
  size_t directory = strlen (file);
  while (directory > 0 && file[directory - 1] != '/')
    directory--;
  directory = without_slashes (file, directory);
  for (const char *at = run_path;; at++)
    {
      const char *end = at + length_to (at, ':');
      size_t length = without_slashes (at, (size_t) (end - at));
      for (size_t i = 0; i < length; i++)
        if (at[i] == '$')
          return 0;
      if (!roots_contain (at, length))
        return 0;
      if ((length == directory && memcmp (at, file, length) == 0) || *end == '\0')
        return 1;
      at = end;
    }
}

const char *
note_ask (const struct link_map *map, int is_program, const char *run_path,
          const char *needed)
{
  struct headers headers = headers_of (map, is_program);
  for (unsigned i = 0; i < headers.count; i++)
    {
      size_t length;
      const elf_phdr *header = &headers.first[i];
      /* The loader has mapped it readable. */
      const elf_phdr *load = segment_of (headers, header->vaddr, header->filesz);
      if (header->type != PT_NOTE || load == NULL || !(load->flags & PF_R))
        continue;
      const unsigned char *notes = (const unsigned char *) (map->addr + header->vaddr);
      const char *descriptor = find_descriptor (notes, header->filesz, &length);
      const char *list = descriptor != NULL ? find_list (descriptor, length, needed) : NULL;
      if (list != NULL)
        {
          const char *file = first_file (list);
          return file != NULL && is_settled (run_path, file) ? file : NULL;
        }
    }
  return NULL;
}
