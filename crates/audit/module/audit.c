/* The rtld-audit interface (man 7 rtld-audit): the functions that the loader calls.

   la_objopen identifies each object. la_objsearch answers a needed string before the loader
   searches, or returns it unchanged. */
#include "ahead.h"
#include "auditors.h"
#include "base.h"
#include "bind.h"
#include "chain.h"
#include "dynamic.h"
#include "condition.h"
#include "idle.h"
#include "library_path.h"
#include "log.h"
#include "note.h"
#include "pages.h"
#include "process.h"
#include "stubs.h"
#include "system.h"
#include "table.h"
#include "tree.h"
#include "whole.h"

#define LAV_CURRENT 2u
#define LA_SER_ORIG 1u
#define LA_ACT_CONSISTENT 0u
#define LM_ID_BASE 0

static const struct link_map *program STATE = NULL;
static char program_path[4096] BUFFER = { 0 };
/* Results of checks are kept for one batch of lookups: the program's start, and then each
   dlopen. A batch ends with LA_ACT_CONSISTENT or, if no object was loaded, with the next lookup. */
static unsigned char has_started STATE = 0;
static unsigned char is_unanswered STATE = 0;
/* The program is closed at the end of the process, before the destructors of its libraries
   (_dl_fini of glibc elf/dl-fini.c). They may still open libraries, which are searched along its DT_RPATH too. */
static unsigned char has_ended STATE = 0;

/* Returns 0 to make the loader unload the module silently. */
EXPORT unsigned
la_version (unsigned version)
{
  if (start_is_idle || !module_is_whole ())
    return 0;
  return version < LAV_CURRENT ? version : LAV_CURRENT;
}

/* Returns the kernel's link to the program; NULL if it cannot be read. */
static const char *
real_path (void)
{
  long length = sys_readlink ("/proc/self/exe", program_path, sizeof program_path - 1);
  if (length <= 0 || (size_t) length >= sizeof program_path - 1)
    return NULL;
  program_path[length] = '\0';
  return program_path;
}

/* Finds the program by the path given to execve if that is its real path, else by the kernel's
   link, because $ORIGIN is the directory of the real path. */
static const struct table_object *
find_program (void)
{
  const char *path = process.executable;
  if (path != NULL && path[0] == '/')
    {
      const struct table_object *object = table_find_object (path);
      if (object != NULL && object->flags & OBJECT_CANONICAL)
        return object;
    }
  path = real_path ();
  return path != NULL ? table_find_object (path) : NULL;
}

/* Finds the bindings of the program by either path, and the answers of its trees; the program is identified by more
   than its name. */
static void
find_bindings (void)
{
  /* There are no bindings for 32-bit Arm and i386. */
  const int may_bind = process.is_on && !program_is_unknown && module_has_bindings ();
  const char *path = process.executable;
  const int is_bound = may_bind
                       && ((path != NULL && path[0] == '/' && bind_init (path)) || bind_init (real_path ()));
  /* From a pack, a program finds libraries that it did not have when it was packed, whatever program it is. Of
     several modules, that of becalm run knows the pack. */
  if (!is_bound && !(HAS_PATHS && table_ready () && table_header->flags & TABLE_TOLD && tree_is_of_pack ()))
    stubs_decline ("not-indexed");
  else if (HAS_PATHS)
    tree_begin ();
}

/* Finds the record of a member with a run path, when it is opened: a program may change its strings later. If
   its run path differs from that of the record, it is another object. */
static void
identify (struct member *member)
{
  const struct link_map *map = member->map;
  if (member->run_path.value == NULL || !table_ready ())
    return;
  const struct table_object *object = NULL;
  if (map->name != NULL && map->name[0] == '/')
    object = table_find_object (map->name);
  else if (map == program && !process.is_direct)
    object = find_program ();
  if (object != NULL && object->run_path == run_path_digest (&member->run_path))
    member->object = object;
}

EXPORT unsigned
la_objopen (struct link_map *map, long namespace, uintptr_t *cookie)
{
  /* Audit modules before and after this one, and the libraries they need, are mapped before the
     program is announced (load_audit_modules of glibc elf/rtld.c), each module into a namespace
     of its own. */
  if (program == NULL && namespace == LM_ID_BASE)
    {
      program = map;
      process_init (map);
      learn_init ();
      library_path_init ();
      if (process.is_on)
        auditors_init (map);
      if (auditors_found & AUDITORS_SEARCH)
        log_line ("given-up", NULL, "auditors", NULL);
      find_bindings ();
    }
  else if (program == NULL)
    auditors_open (map);
  is_unanswered = 0;
  /* A cookie is the member, or NULL. */
  *cookie = 0;
  if (!process.is_on || program == NULL)
    return 0;
  struct member *member = chain_open (map, has_started);
  if (member != NULL)
    identify (member);
  *cookie = (uintptr_t) member;
  char digits[DIGITS_SIZE];
  const char *path = map->name;
  if (map == program && (path == NULL || path[0] == '\0'))
    path = process.executable;
  log_line ("object", cookie, digits_of ((unsigned long) namespace, digits), path != NULL ? path : "", NULL);
  learn_open (map, map == program);
  if (!has_started)
    ahead_look ();
  else if (HAS_PATHS)
    tree_opened (map, cookie);
  if (namespace == LM_ID_BASE && !has_started)
    bind_open (map);
  return 0;
}

static void
forget (void)
{
  conditions_forget ();
  library_path_forget ();
  is_unanswered = 0;
}

EXPORT void
la_activity (uintptr_t *cookie, unsigned flag)
{
  (void) cookie;
  if (flag != LA_ACT_CONSISTENT || program == NULL)
    return;
  if (!has_started)
    {
      bind_finish ();
      learn_finish ();
      if (HAS_PATHS)
        tree_settle ();
      dump_slots (program);
      /* No constructor was called yet (dl_main of glibc elf/rtld.c). */
      if ((HAS_PAGES && pages_wait ()) || process.stops)
        sys_exit (0);
      only_restore ();
    }
  has_started = 1;
  chain_settle ();
  forget ();
}

EXPORT unsigned
la_objclose (uintptr_t *cookie)
{
  if (!process.is_on || program == NULL)
    return 0;
  struct member *member = chain_member (*cookie);
  if (member != NULL)
    {
      if (member->map == program)
        has_ended = 1;
      chain_close (member);
    }
  learn_close (has_ended);
  if (HAS_PATHS)
    tree_closed (cookie);
  *cookie = 0;
  return 0;
}

/* True if the file may be named although the loader has not looked for it: no package was added
   to or removed from the stores, or the file exists. In a directory that was recognised by its names
   the file may have become one that the loader skips. */
static int
is_there (uint32_t flags, const char *path)
{
  struct statx found;
  if (HAS_PATHS && tree_place (path) != path)
    return 1;
  if (conditions_used_listing && !file_fits (path))
    return 0;
  if (!(flags & EDGE_LOOK) && roots_hold ())
    return 1;
  return sys_stat (path, &found) == 0 && statx_is_for_all (&found);
}

/* Returns the edge of an object. For a name that it was not indexed with, returns the edge of
   the common object if the search along the object's own run path is known to find nothing. */
static const struct table_edge *
find_edge (const struct table_object *object, const char *needed, const char **path)
{
  const struct table_edge *edge = table_find_edge (object, needed, path);
  if (edge != NULL || !(object->flags & OBJECT_CLOSED))
    return edge;
  edge = table_find_edge (table_find_object (""), needed, path);
  return edge != NULL && edge->conditions & EDGE_OUTSIDE ? edge : NULL;
}

/* Returns the answer of LD_LIBRARY_PATH, else PATH, which comes after it; PATH is NEEDED if no answer
   follows. */
static const char *
after_library_path (const char *needed, const char *path)
{
  const char *first;
  if (!library_path_is_set ())
    return path;
  const enum lookup answer = library_path_ask (needed, path != needed, &first);
  return answer == LOOKUP_FOUND ? first : answer == LOOKUP_NOTHING ? path : needed;
}

/* True if an edge of OBJECT may be followed. If packages came or went, the directories that the search has passed must
   be as they were. */
static int
edge_holds (const struct table_edge *edge, const struct table_object *object, const char *needed, const char *path)
{
  const uint32_t flags = edge->conditions;
  if (!conditions_hold (flags & EDGE_SET, needed, path))
    return 0;
  if (object->in_stores == 0 || roots_hold ())
    return is_there (flags, path);
  const enum store_answer answer = conditions_up_to (object->in_stores - 1, path);
  return (answer == STORE_HAS_IT && !(flags & EDGE_LOOK) && !conditions_used_listing)
         || (answer != STORE_CHANGED && is_there (flags, path));
}

/* Returns the answer of LD_LIBRARY_PATH, else PATH, that of an edge of OBJECT, if there is one and it holds. */
static const char *
after_library_path_or (const struct table_edge *edge, const struct table_object *object, const char *needed,
                       const char *path)
{
  const char *first = after_library_path (needed, edge != NULL ? path : needed);
  if (edge == NULL || first != path)
    return first;
  return edge_holds (edge, object, needed, path) ? path : needed;
}

/* A DT_RPATH is searched before LD_LIBRARY_PATH, a DT_RUNPATH after it. */
static const char *
answer_from_table (const char *needed, const struct member *member)
{
  const char *path = needed;
  const struct table_edge *edge = find_edge (member->object, needed, &path);
  if (member->run_path.is_rpath)
    {
      if (edge == NULL || !edge_holds (edge, member->object, needed, path))
        return needed;
      if (!(edge->conditions & EDGE_BEFORE_LIBRARY_PATH))
        return after_library_path (needed, path);
      /* If the loader was started as a command, it may have been told to ignore run paths
         (--inhibit-rpath). */
      return library_path_is_readable () ? path : needed;
    }
  return after_library_path_or (edge, member->object, needed, path);
}

/* Searches every DT_RPATH of the member's chain, then LD_LIBRARY_PATH, then the loader cache as
   the table's common object, which has an empty name, records it. */
static const char *
answer_from_chain (const char *needed, const struct member *member)
{
  const char *path;
  int look = 0, has_rpath;
  const enum lookup answer = chain_ask (member, needed, &path, &look, &has_rpath);
  /* If the loader was started as a command, it may have been told to ignore run paths
     (--inhibit-rpath). */
  if (answer == LOOKUP_FOUND)
    return library_path_is_readable () && is_there (look ? EDGE_LOOK : 0, path) ? path : needed;
  if (answer == LOOKUP_UNKNOWN || (!has_rpath && !library_path_is_set ()) || !table_ready ())
    return needed;
  const struct table_object *common = member->run_path.no_default ? NULL : table_find_object ("");
  const struct table_edge *edge = table_find_edge (common, needed, &path);
  return after_library_path_or (edge, common, needed, path);
}

/* The loader expands an answer like a path, so it must not contain a dollar sign. */
static const char *
answer (const char *needed, struct member *member)
{
  if (has_byte (needed, '/') || has_byte (needed, '$') || process_is_loader (needed))
    return needed;
  if (is_unanswered && has_started)
    forget ();
  is_unanswered = 1;
  if (member == NULL)
    return needed;
  if (member->object != NULL)
    {
      const char *result = answer_from_table (needed, member);
      /* DT_RUNPATH is searched after LD_LIBRARY_PATH, and without the DT_RPATH of other objects. */
      if (result != needed || !member->run_path.is_rpath)
        return result;
    }
  /* Its DT_RPATH comes before a note. */
  else if (member->run_path.is_rpath)
    return needed;
  else if (member->run_path.value != NULL)
    {
      /* The note of an object that is not indexed comes after LD_LIBRARY_PATH and before DT_RUNPATH. */
      const char *noted
          = table_ready () ? note_ask (member->map, member->map == program, member->run_path.value, needed) : NULL;
      return after_library_path (needed, noted != NULL ? noted : needed);
    }
  return answer_from_chain (needed, member);
}

EXPORT const char *
la_objsearch (const char *name, uintptr_t *cookie, unsigned flag)
{
  if (!process.is_on || program == NULL)
    return name;
  char digits[DIGITS_SIZE];
  const char *result = name;
  if (flag == LA_SER_ORIG && !(auditors_found & AUDITORS_SEARCH) && !has_ended)
    {
      struct member *member = chain_member (*cookie);
      chain_asks (member);
      result = answer (name, member);
    }
  if (HAS_PATHS && !(auditors_found & AUDITORS_SEARCH))
    result = has_started ? tree_library (result, program) : tree_place (result);
  if (!has_ended)
    log_line ("search", cookie, digits_of (flag, digits), name, result != name ? result : "", NULL);
  return result;
}
