/* What exists below the packages of indexed stores (docs/paths.md). Every function may be called by
   any thread, in a signal handler and between vfork and execve. */
#ifndef BECALM_PATHS_H
#define BECALM_PATHS_H

#include "system.h"
#include "table.h"

/* For machines on which starts are bound and whose stubs are written (stub/). */
#if defined __x86_64__ || defined __aarch64__
# define HAS_PATHS 1
#else
# define HAS_PATHS 0
#endif

enum path_answer
{
  /* The kernel is asked. */
  PATHS_UNKNOWN,
  PATHS_ABSENT,
  /* Real ones: no component of the path is a link. */
  PATHS_DIRECTORY,
  PATHS_FILE,
};

/* Makes room; 0 if the table has no paths, or there is no memory. CLOCK is clock_gettime of the vDSO. */
int paths_init (void *clock);

/* What a path is. */
enum path_answer paths_ask (const char *path);

/* True for a path that is its own real path, if it was found to be a directory or file. */
int paths_is_real (const char *path);

/* The stat of a directory that paths_ask found, from memory or from the kernel; 0 if the kernel
   must be asked. */
int paths_stat (const char *path, struct statx *result);

/* The process is about to make, or to rename or remove, something: PATH is relative to DIRECTORY
   (AT_FDCWD), as in openat. */
void paths_written (int directory, const char *path);

/* The process is about to wait for a child, which may have changed something. */
void paths_waited (void);

/* Nothing is answered any more. */
void paths_off (void);

#endif
