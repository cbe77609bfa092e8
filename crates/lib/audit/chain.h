/* The objects of the process and who loaded each: what their DT_RPATH gives to the objects below
   them. */
#ifndef BECALM_CHAIN_H
#define BECALM_CHAIN_H

#include "base.h"

struct member
{
  const struct link_map *map;
  /* Its record in the table, NO_OBJECT if the table has none that fits. */
  uint32_t object;
  /* The member that loaded it; 0 is the program. */
  uint16_t loader;
  uint16_t flags;
};

#define MEMBER_OPEN 1u
/* OBJECT is set. */
#define MEMBER_IDENTIFIED 2u
/* It has a DT_RPATH that counts. */
#define MEMBER_RPATH 4u
/* It has a DT_RUNPATH, an empty one included: no DT_RPATH is searched for it. */
#define MEMBER_RUNPATH 8u
/* DF_1_NODEFLIB. */
#define MEMBER_NO_DEFAULT 16u

enum chain_answer
{
  /* No DT_RPATH that is searched for the object has the name. */
  CHAIN_NOTHING,
  /* The first that has it is known; *path names the file. */
  CHAIN_FOUND,
  /* The loader has to search. */
  CHAIN_UNKNOWN,
};

/* The member for an object that was just mapped, NULL if there are too many. */
struct member *chain_open (const struct link_map *map);

/* MEMBER asks for a name; the object mapped next is the one it gets. NULL for an object that is
   no member. */
void chain_asks (const struct member *member);

/* MEMBER goes away. */
void chain_close (struct member *member);

/* A batch of questions has ended: the start, a dlopen or a dlclose. */
void chain_settle (void);

/* True if a DT_RPATH is searched for the names a member asks for. */
int chain_has_rpath (const struct member *member);

/* Searches every DT_RPATH for a name that MEMBER asks for. */
enum chain_answer chain_ask (const struct member *member, const char *name, const char **path,
                             int *look);

#endif
