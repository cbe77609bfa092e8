/* Compiles elf/dl-resolution.h without glibc, for tests and fuzzing.  The
   functions of dl-load.c that it calls are replaced by ones that find nothing
   and write down what was tried.  */

#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#define link_map public_link_map
#include <link.h>
#undef link_map

struct link_map
{
  ElfW(Addr) l_addr;
  char *l_name;
  const ElfW(Phdr) *l_phdr;
  size_t l_phnum;
  ElfW(Dyn) *l_info[DT_RUNPATH + 1];
};

struct filebuf;
struct dl_exception
{
  int unused;
};
struct r_search_path_elem
{
  char *dirname;
};
struct r_search_path_struct
{
  struct r_search_path_elem **dirs;
};

static const char *dl_inhibit_rpath;
static int dl_debug_mask, __libc_enable_secure;
#define DL_DEBUG_LIBS 1
#define GLRO(name) name
#define D_PTR(map, i) (map)->i->d_un.d_ptr
#define TUNABLE_GET(top, namespace, name, type, callback) 1
#define ALIGN_UP(base, size) (((base) + (size) - 1) & -(size))
#ifndef NT_NIXOS_LD_CACHE
# define ELF_NOTE_NIXOS "NixOS"
# define NT_NIXOS_LD_CACHE 0x63a86cb6
#endif
#define __set_errno(value) (errno = (value))
#define __strndup strndup
#define _dl_debug_printf(...) ((void) 0)
#define _dl_exception_free(exception) ((void) (exception))

/* What was tried, in the form of a list.  */
static char *tried;
static size_t tried_length;

static int
try (char kind, const char *path)
{
  size_t length = strlen (path);
  tried = realloc (tried, tried_length + length + 3);
  if (tried == NULL)
    abort ();
  if (tried_length > 0)
    tried[tried_length++] = ':';
  tried[tried_length++] = kind;
  memcpy (tried + tried_length, path, length + 1);
  tried_length += length;
  errno = ENOENT;
  return -1;
}

static char *
expand_dynamic_string_token (struct link_map *l, const char *input)
{
  (void) l;
  return strdup (input);
}

static int
open_verify (const char *name, int fd, struct filebuf *fbp,
	     struct link_map *loader, int whatcode, int mode,
	     bool *found_other_class, bool free_name)
{
  (void) fd, (void) fbp, (void) loader, (void) whatcode, (void) mode;
  (void) found_other_class, (void) free_name;
  return try ('=', name);
}

static bool
fillin_rpath (char *rpath, struct r_search_path_elem **result, const char *sep,
	      const char *what, const char *where, struct link_map *l)
{
  static struct r_search_path_elem element;
  (void) sep, (void) what, (void) where, (void) l;
  element.dirname = rpath;
  result[0] = &element;
  return true;
}

static int
open_path (const char *name, size_t namelen, int mode,
	   struct r_search_path_struct *sps, char **realname,
	   struct filebuf *fbp, struct link_map *loader, int whatcode,
	   bool *found_other_class)
{
  (void) mode, (void) realname, (void) fbp, (void) loader, (void) whatcode;
  (void) found_other_class;
  if (strlen (name) + 1 != namelen)
    abort ();
  return try ('?', sps->dirs[0]->dirname);
}

static void
_dl_catch_exception (struct dl_exception *exception,
		     void (*operate) (void *), void *args)
{
  exception->unused = 0;
  operate (args);
}

#pragma GCC diagnostic ignored "-Wsign-compare"
#include "dl-resolution.h"

/* Return what the reader tries for NAME, as a list: for an object with these
   segments that is loaded at BASE, and with this DT_RUNPATH.  */
const char *
reader_tries (const ElfW(Phdr) *phdr, size_t phnum, ElfW(Addr) base,
	      const char *run_path, const char *name)
{
  static char no_name[1];
  ElfW(Dyn) strings = { .d_un.d_ptr = (ElfW(Addr)) run_path };
  ElfW(Dyn) at = { .d_un.d_val = 0 };
  struct link_map l
    = { .l_addr = base, .l_name = no_name, .l_phdr = phdr, .l_phnum = phnum };
  char *realname = NULL;
  l.l_info[DT_STRTAB] = &strings;
  l.l_info[DT_RUNPATH] = &at;
  tried_length = 0;
  if (resolution_open (&l, DT_RPATH, name, 0, &realname, NULL) != -1
      || tried_length != 0
      || resolution_open (&l, DT_RUNPATH, name, 0, &realname, NULL) != -1)
    abort ();
  return tried_length == 0 ? "" : tried;
}

/* Return the list for NAME in a descriptor.  */
const char *
reader_list (const char *descriptor, size_t length, const char *name)
{
  return resolution_lookup (descriptor, length, name);
}
