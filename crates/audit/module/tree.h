/* Answers about files in trees that change, from a table that another process fills
   (crates/lib/src/trees/). Every function may be called by any thread, in a signal handler and between
   vfork and execve. Without HAS_PATHS there are no functions: callers ask for it first. */
#pragma once

#include "paths.h"
#include "system.h"

enum tree_answer
{
  /* Ask the kernel. */
  TREE_UNKNOWN,
  TREE_ABSENT,
  TREE_FOUND,
  /* A regular file that is as it was copied: for callers TREE_FOUND. */
  TREE_COPIED,
};

/* True if tables are filled from a pack alone: the process that gives them has another name (door.rs). */
int tree_is_of_pack (void);

/* Takes the descriptors that `becalm run` has left open, so that no program inherits them, in the module whose
   index has the program; asks for descriptors, if none were left open for this one. */
void tree_begin (void);

/* Maps the table. Returns 0 if this program has no table. */
int tree_init (void);

/* True if the program is told what is in a pack, from its start on. */
int tree_is_told (void);

/* Closes what is not needed after the start. */
void tree_settle (void);

/* Called for each object that is opened after the start, and when it is closed. */
void tree_opened (const struct link_map *map, const uintptr_t *cookie);
void tree_closed (const uintptr_t *cookie);

/* Returns the path that the loader is to open instead of PATH: that of a copy, or PATH itself. */
const char *tree_library (const char *path, const struct link_map *program);

/* Returns the number of paths in the table. */
uint32_t tree_count (void);

/* Answers stat, with FOLLOW, or lstat. FOUND is written if the answer is TREE_FOUND. */
enum tree_answer tree_stat (const char *path, int follow, struct statx *found);

/* Answers readlink. TARGET is written if the answer is TREE_FOUND: NULL if the path is no link. */
enum tree_answer tree_link (const char *path, const char **target);

/* Answers realpath: PATH itself, or one in the table; NULL if the kernel has to be asked. */
const char *tree_real (const char *path);

/* O_DIRECTORY, and the flags with which a file is opened for reading: O_CLOEXEC, O_NOCTTY, O_NONBLOCK,
   O_LARGEFILE. */
#ifdef __x86_64__
# define TREE_DIRECTORY 0200000u
# define TREE_LARGE_FILE 0100000u
#else
# define TREE_DIRECTORY 040000u
# define TREE_LARGE_FILE 0400000u
#endif
#define TREE_NO_FOLLOW (TREE_DIRECTORY << 1)
#define TREE_CLOSE_ON_EXEC 02000000u
#define TREE_NONBLOCKING 04000u
#define TREE_PLAIN (TREE_CLOSE_ON_EXEC | 0400 | TREE_NONBLOCKING | TREE_LARGE_FILE)
/* There is no such path. */
#define TREE_NOT_THERE (-2)

/* Returns where PATH leads, with FOLLOWS also its last name, if the program is told of a link in it that leads out
   of the trees; else PATH itself. */
const char *tree_outside (const char *path, int follows);

/* True for a file of the pack that the program is told of. */
int tree_is_packed (const char *path);

/* Returns the place of a file in the pack that the program is told of, or PATH itself. */
const char *tree_place (const char *path);

/* Opens a directory, or the copy of a file, with the flags of open. Returns the descriptor, TREE_NOT_THERE,
   or -1 if the kernel has to be asked. */
long tree_open (const char *path, unsigned flags);

/* Returns 1 with the stat of the original if a descriptor is open for a copy. */
int tree_stat_open (int fd, struct statx *found);

/* Lets a descriptor that is open for a copy be one of the original: before it is locked or changed, and before
   other programs can get it. */
void tree_restore (int fd);
void tree_restore_all (void);

/* Lets a descriptor that is open for a file or directory of the pack be one of the tree. Returns 0 if the tree is
   gone. */
int tree_leave_pack (int fd);

/* Disables all answers. */
void tree_off (void);
