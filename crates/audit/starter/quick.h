/* The file of a start that `becalm run` would make again: what is executed and added to the environment,
   and what must still hold. Written by crates/lib/src/quick.rs. */
#pragma once

#include "started.h"

/* Kinds of conditions: a variable is not set, or is in the environment with this value, or is a list whose
   first directory is on no network file system; a file does not exist, or has not changed since the index
   was made; a page is in memory. */
#define QUICK_UNSET 0u
#define QUICK_SET 1u
#define QUICK_NEAR 2u
#define QUICK_ABSENT 3u
#define QUICK_OLDER 4u
#define QUICK_IN_MEMORY 5u

struct condition
{
  uint32_t kind;
  /* Offset of the name, the variable with its value, or the path. */
  uint32_t text;
  /* The offset of the page, or the nanoseconds of the index's time. */
  uint64_t number;
};

struct quick
{
  char magic[8];
  /* hash_bytes with this seed of all that follows. */
  uint64_t check;
  /* Three files follow the program: the index, the platforms, and the record. */
  struct identity becalm, program, files[3];
  /* Seconds since 1970 between which it counts. */
  int64_t since, until;
  /* The device of the program: no network file system. */
  uint32_t major, minor;
  uint32_t length, count;
  /* Offsets of the paths of these files, and of two variables. */
  union
  {
    struct { uint32_t program_path, file_paths[3], variables[2]; };
    uint32_t texts[6];
  };
  struct condition conditions[];
};

_Static_assert (sizeof (struct quick) == 232 && sizeof (struct condition) == 16, "as becalm writes them");

#define QUICK_MAGIC "becalm\1\1"
#define QUICK_SEED 4u
/* The largest file. */
#define QUICK_LARGEST 0x8000u
