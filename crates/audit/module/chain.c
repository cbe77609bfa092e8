/* The DT_RPATH of an object is searched for its own needed strings, and for those of the objects
   that it loaded (_dl_map_object of glibc elf/dl-load.c). No audit module can see which object
   loaded another (l_loader); it follows from the calls:

   - at the start, an object is loaded by the requester of the last lookup;
   - in a dlopen too, except for the object that was opened: it has no loader, because
     __RTLD_CALLMAP removes it;
   - an object whose loader is closed has no loader any more (_dl_close_worker).

   The program's DT_RPATH is searched last in any case, so an object without a loader is treated
   like one that the program loaded.

   The table has the file names of every directory of a DT_RPATH, so no directory is accessed. */
#include "chain.h"
#include "condition.h"
#include "system.h"
#include "table.h"

#define MAX_MEMBERS 16384u
#define NOBODY UINT16_MAX

static struct member *members STATE = NULL;
static unsigned member_count STATE = 0;
/* Closed members, which may be used for other objects. */
static unsigned free_count STATE = 0;
/* The requester of the last lookup, plus one; 0 if there is none. */
static unsigned asking STATE = 0;
/* An object was mapped in this dlopen. */
static unsigned char has_root STATE = 0;
/* An object was closed since the last batch. */
static unsigned char has_closed STATE = 0;
static char candidate[4096] BUFFER = { 0 };

static struct member *
free_member (void)
{
  for (unsigned i = 0; free_count > 0 && i < member_count; i++)
    if (members[i].map == NULL)
      {
        free_count--;
        return &members[i];
      }
  if (members == NULL)
    members = sys_allocate (MAX_MEMBERS * sizeof *members);
  return members != NULL && member_count < MAX_MEMBERS ? &members[member_count++] : NULL;
}

struct member *
chain_open (const struct link_map *map, int has_started)
{
  /* The first object that a dlopen maps is the one it opens. */
  unsigned is_root = has_started && !has_root;
  has_root = 1;
  struct member *member = has_closed ? NULL : free_member ();
  if (member == NULL)
    return NULL;
  *member = (struct member) { .map = map, .run_path = dynamic_run_path (map) };
  if (!is_root && member != members)
    member->loader = asking != 0 ? (uint16_t) (asking - 1) : NOBODY;
  asking = 0;
  return member;
}

struct member *
chain_member (uintptr_t cookie)
{
  const uintptr_t offset = cookie - (uintptr_t) members;
  const int is_member = offset < member_count * sizeof *members && offset % sizeof *members == 0;
  struct member *member = (struct member *) cookie;
  return is_member && member->map != NULL ? member : NULL;
}

void
chain_asks (const struct member *member)
{
  asking = member != NULL ? (unsigned) (member - members) + 1 : 0;
}

void
chain_close (struct member *member)
{
  member->map = NULL;
  free_count++;
  has_closed = 1;
}

void
chain_settle (void)
{
  has_root = 0;
  asking = 0;
  if (!has_closed)
    return;
  has_closed = 0;
  for (unsigned i = 0; i < member_count; i++)
    {
      struct member *member = &members[i];
      if (member->loader != NOBODY && members[member->loader].map == NULL)
        member->loader = 0;
    }
}

/* Searches the directories of a member's DT_RPATH. */
static enum lookup
ask_member (const struct member *member, const char *name, int *look)
{
  uint32_t count = 0;
  const char *path;
  const uint32_t rpath = member->object != NULL ? member->object->rpath : 0;
  const uint32_t *dirs = rpath != 0 ? table_set (rpath - 1, &count) : NULL;
  if (dirs == NULL)
    return LOOKUP_UNKNOWN;
  for (uint32_t i = 0; i < count; i++)
    {
      const struct table_search_dir *dir = table_search_dir (dirs[i], &path);
      if (dir == NULL || !conditions_hold (dir->conditions, NULL, NULL))
        return LOOKUP_UNKNOWN;
      const int has = table_has_name (&dir->names, name);
      *look = (dir->flags & SEARCH_DIR_LOOK) != 0;
      if (has == 2 && join_path (candidate, sizeof candidate, path, strlen (path), name))
        return LOOKUP_FOUND;
      if (has != 0)
        return LOOKUP_UNKNOWN;
    }
  return LOOKUP_NOTHING;
}

enum lookup
chain_ask (const struct member *member, const char *name, const char **path, int *look, int *has_rpath)
{
  *has_rpath = 0;
  if (member->run_path.has_runpath)
    return LOOKUP_NOTHING;
  for (;; member = &members[member->loader])
    {
      if (member->run_path.is_rpath)
        {
          enum lookup answer = ask_member (member, name, look);
          *has_rpath = 1;
          *path = candidate;
          if (answer != LOOKUP_NOTHING)
            return answer;
        }
      if (member->loader == NOBODY || has_closed)
        return LOOKUP_UNKNOWN;
      /* The program. */
      if (member == members)
        return LOOKUP_NOTHING;
    }
}
