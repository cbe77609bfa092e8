/* The objects of the process and who loaded each, for the DT_RPATH that objects inherit. */
#pragma once

#include "dynamic.h"

struct member
{
  /* NULL for a member that is closed. */
  const struct link_map *map;
  struct run_path run_path;
  /* Its record in the table, NULL if the table has no matching one. */
  const struct table_object *object;
  /* The member that loaded it; 0 is the program. */
  uint16_t loader;
};

/* Returns the member for an object that was just mapped, NULL if there are too many. */
struct member *chain_open (const struct link_map *map, int has_started);

/* Returns the member of a cookie, NULL if it has none. The cookie of an object that was not announced to
   this module is its link map (_dl_new_object of glibc elf/dl-object.c). */
struct member *chain_member (uintptr_t cookie);

/* MEMBER requests a name; the object that is mapped next is the answer. NULL for an object that
   is no member. */
void chain_asks (const struct member *member);

/* Removes MEMBER. */
void chain_close (struct member *member);

/* Called when a batch of lookups has ended: the start, a dlopen or a dlclose. */
void chain_settle (void);

/* Searches every DT_RPATH for a name that MEMBER requests. HAS_RPATH becomes true if there is one. */
enum lookup chain_ask (const struct member *member, const char *name, const char **path, int *look, int *has_rpath);
