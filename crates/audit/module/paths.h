/* Answers which paths exist below the packages of indexed stores (docs/paths.md). Every function
   may be called by any thread, in a signal handler and between vfork and execve. */
#pragma once

#include "system.h"
#include "table.h"

/* For machines on which starts are bound and whose stubs are written (stub/). */
#if defined __x86_64__ || defined __aarch64__
# define HAS_PATHS 1
#else
# define HAS_PATHS 0
#endif

#define LOAD(at) __atomic_load_n (&(at), __ATOMIC_ACQUIRE)
#define STORE(at, value) __atomic_store_n (&(at), value, __ATOMIC_RELEASE)
/* Stores VALUE if *EXPECTED is there, else loads what is there into it. Returns 1 if it was stored. */
#define EXCHANGE(at, expected, value) \
  __atomic_compare_exchange_n (&(at), expected, value, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

enum path_answer
{
  /* Ask the kernel. */
  PATHS_UNKNOWN,
  PATHS_ABSENT,
  /* Real paths: no component is a link. */
  PATHS_DIRECTORY,
  PATHS_FILE,
};

/* Finds the clock of the vDSO, which is among the objects of the start. Returns 0 if it does not work. */
int clock_init (const struct link_map *object);

/* Returns the milliseconds since the machine started, without a system call; 0 if they are not known. The clock has a
   granularity of up to 10. */
uint64_t clock_now (void);

/* Allocates memory; returns 0 if the table has no paths, or there is no memory. */
int paths_init (void);

/* Returns the next component of a path other than ".", with its length in *LENGTH; NULL at the end. */
const char *paths_next_name (const char **at, size_t *length);

/* Returns the kind of a path, if it is at most MOST; PATHS_DIRECTORY stands for the stat of one. */
enum path_answer paths_ask (const char *path, enum path_answer most);

/* True for a path that is its own real path, if it was found to be a directory or file. */
int paths_is_real (const char *path);

/* Returns the stat of a directory that paths_ask found, from memory or from the kernel; 0 if the
   kernel must be called. */
int paths_stat (const char *path, struct statx *result);

/* Called when the process is about to make, move or remove a path: PATH is relative to
   DIRECTORY (AT_FDCWD), as in openat. */
void paths_written (int directory, const char *path, int moves);

/* Called when the process is about to open a file that is made if it is not there. */
void paths_created (int directory, const char *path);

/* Called when the process is about to change what stat returns, or has or makes a child, which may
   do so. */
void paths_forget (void);

/* Disables all answers. */
void paths_off (void);
