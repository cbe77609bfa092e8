/* The table of docs/index-format.md as C structures. Every number is in the machine's own byte
   order; every reference is an offset or an index, checked before it is followed. */
#pragma once

#include "base.h"

#define TABLE_VERSION 4u
#define TABLE_ORDER 0x01020304u
#define TRAILER_SIZE 256u
#define MAX_SECTIONS 64u

/* The header; the section directory follows it. */
struct table_header
{
  unsigned char magic[8];
  uint32_t order, version, machine, length;
  uint32_t section_count;
  uint32_t roots;
  /* Read by becalm only. */
  uint32_t settings, static_tls;
  uint64_t checksum;
  /* Seccomp filters of the process that made the index. */
  uint32_t filters;
  uint32_t flags, reserved;
  uint32_t check;
};

/* The flag of an index for starts that are told results of lookups. */
#define TABLE_TOLD 1u

struct table_section
{
  uint32_t kind, at, count, size;
};

/* The kinds of sections that the module reads. */
enum section_kind
{
  SECTION_OBJECTS = 1,
  SECTION_BUCKETS = 2,
  SECTION_EDGES = 3,
  SECTION_CONDITIONS = 4,
  SECTION_POOL = 5,
  SECTION_DIRECTORIES = 6,
  SECTION_STRINGS = 7,
  SECTION_SEARCH_DIRS = 13,
  /* Bindings (bound.c); an index without them has none of these. */
  SECTION_BOUND_PROGRAMS = 14,
  SECTION_BOUND_OBJECTS = 15,
  SECTION_MEMBERS = 16,
  SECTION_BLOCKS = 17,
  SECTION_BLOCK_WORDS = 18,
  /* Paths (paths.c); an index without them has none of these. */
  SECTION_PATH_ROOTS = 24,
  SECTION_PATH_PACKAGES = 25,
  SECTION_PATH_LINKS = 26,
  SECTION_PATH_SLOTS = 27,
  SECTION_KINDS,
};

/* For each kind: the section's first record and the number of records; none before the table was found
   to be usable, or if it does not have the section. */
extern struct sections
{
  const void *records;
  uint32_t count;
} sections[SECTION_KINDS] __attribute__ ((visibility ("hidden")));

struct table_object
{
  uint32_t path;
  uint32_t edges, edge_count;
  uint32_t run_path;
  uint32_t flags;
  /* The directories of its DT_RPATH, in order: one more than the place of a set of search
     directories; 0 if it has none or they are not all known. */
  uint32_t rpath;
  /* The conditions of the directories of its run path that are in stores, in order: one more than
     the place of a set; 0 if there are none. */
  uint32_t in_stores;
  uint32_t check;
};

/* The path is real: no component of it is a link. */
#define OBJECT_CANONICAL 1u
/* Its whole run path is immutable and was searched; the DT_RPATH of other objects does not
   matter, and the loader cache and the system directories follow. */
#define OBJECT_CLOSED 2u

struct table_edge
{
  uint32_t name_hash;
  uint32_t path;
  uint32_t conditions;
  uint32_t check;
};

#define EDGE_SET 0x00ffffffu
/* Found along DT_RPATH, so LD_LIBRARY_PATH does not matter. */
#define EDGE_BEFORE_LIBRARY_PATH 0x01000000u
/* In a directory that may change, or found by the loader cache: checked first. */
#define EDGE_LOOK 0x04000000u
/* Edge of the common object: no directory of any indexed run path has the name. */
#define EDGE_OUTSIDE 0x10000000u

struct table_times
{
  int64_t mtime_sec, ctime_sec;
  uint32_t mtime_nsec, ctime_nsec;
};

struct table_condition
{
  uint32_t path, kind;
  /* The size of a directory is the hash of its listing, 0 if that is not known. */
  uint64_t volume, ino, size;
  struct table_times times;
  uint32_t spare, check;
};

enum condition_kind
{
  CONDITION_DIRECTORY = 1,
  CONDITION_ABSENT = 2,
  CONDITION_FILE = 3,
  CONDITION_LOADER = 4,
  CONDITION_ABSENT_PACKAGE = 5,
  /* For an image: owned by root, with the same time of modification and, if a file, the same
     length. */
  CONDITION_IMAGE_DIRECTORY = 6,
  CONDITION_IMAGE_FILE = 7,
  /* A directory that cannot change while the roots hold. */
  CONDITION_STORE_DIRECTORY = 8,
};

/* Names in the pool: the word of the first, their number, their hash. */
struct table_names
{
  uint32_t at, count, check;
};

struct table_directory
{
  uint32_t path_hash, path;
  uint32_t condition;
  struct table_names names;
  uint32_t flags, check;
};

/* Its names are in the table: it was snapshotted for LD_LIBRARY_PATH. */
#define DIRECTORY_HAS_NAMES 1u

/* A directory that a DT_RPATH names. */
struct table_search_dir
{
  uint32_t path, conditions;
  struct table_names names;
  uint32_t flags, spare, check;
};

/* A file in it may be removed while the directory's own fingerprint stays the same: checked
   first. */
#define SEARCH_DIR_LOOK 1u

/* A program whose bindings are known. */
struct table_bound_program
{
  uint32_t path_hash, path;
  /* The objects of its start in the order of la_objopen, the vDSO left out. */
  uint32_t members, member_count, members_check;
  uint32_t flags;
  /* For the log: relocations with a symbol, and those of them that the blocks have. */
  uint32_t relocations, bindings;
  uint32_t spare, check;
};

/* A function is undefined: a start with LD_BIND_NOW dies. */
#define PROGRAM_UNDEFINED_FUNCTION 1u

/* An object of such a program, with the data by which the object in memory is recognised. */
struct table_bound_object
{
  uint32_t path, flags;
  /* Distance of the dynamic section from the load address. */
  uint64_t dynamic;
  uint64_t dynamic_hash, build_id_hash;
  /* The build ID's own distance and length; length 0 if there is none. */
  uint32_t build_id, build_id_length;
  /* The tables that its bindings rest on: their hash, and one more than the place of a set with
     distance and length of each; 0 if they are not known. */
  uint64_t tables_hash;
  uint32_t tables;
  /* Index of its condition. */
  uint32_t condition;
  uint32_t spare, check;
};

/* It is below an immutable prefix: its condition is not checked while the roots are unchanged. */
#define BOUND_OBJECT_ROOTED 1u

#define NO_BLOCK UINT32_MAX

/* An object of a program, and the blocks that are written into it. Without a block of bindings
   it is left to the loader. */
struct table_member
{
  uint32_t object;
  uint32_t relatives, bindings;
  /* Bindings that differ in this program, applied after the others. */
  uint32_t changes;
};

struct table_block
{
  /* The first word in the section of words, count of words, their hash. */
  uint32_t at, count;
  uint64_t hash;
};

/* A store whose packages' paths are known. */
struct table_path_root
{
  uint32_t path, flags;
  uint64_t volume, ino;
  struct table_times times;
  uint32_t spare[3];
  uint32_t check;
};

/* The index has some of its packages. */
#define PATH_ROOT_CHOSEN 1u

/* A package: an entry of a store, sorted by its state. */
struct table_path_package
{
  uint64_t state, ino;
  struct table_times times;
  /* Its words in the section of slots: one block of them, or blocks of PATH_BLOCK words. */
  uint32_t slots, words;
  /* Number of its first block among all blocks. */
  uint32_t blocks;
  /* Its links to directories, sorted by state. */
  uint32_t links, link_count;
  uint32_t root, name;
  uint32_t flags, spare, check;
};

/* A block: its checksum, then slots. */
#define PATH_BLOCK 512u
#define PATH_MOST_ROOTS 64u

struct table_path_link
{
  uint64_t state, target, package;
  uint32_t spare, check;
};

/* The lowest three bits of a slot. */
enum path_kind
{
  PATH_DIRECTORY = 1,
  PATH_FILE = 2,
  PATH_LINK = 3,
  PATH_OTHER = 4,
};

/* Finds the first of COUNT records of SIZE bytes whose number is at least WANTED; COUNT if there
   is none. The records are sorted by the number of WIDTH bytes (4 or 8) that each begins with. */
static inline uint32_t
table_first_of (const void *records, uint32_t count, size_t size, size_t width, uint64_t wanted)
{
  uint32_t low = 0, high = count;
  while (low < high)
    {
      uint32_t middle = low + (high - low) / 2;
      const unsigned char *record = (const unsigned char *) records + middle * size;
      uint64_t number = width == 4 ? *(const uint32_t *) record : *(const uint64_t *) record;
      if (number < wanted)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

/* True if the table exists, is undamaged and is for this machine. */
int table_ready (void);

/* The header of such a table. */
extern const struct table_header *table_header __attribute__ ((visibility ("hidden")));

/* Returns the string at an offset, NULL if it is not within the table. */
const char *table_string (uint32_t at);

/* Returns a record that has a path, and writes that to *PATH. Returns NULL if the record is damaged or missing. */
const void *table_record (enum section_kind kind, uint32_t index, const char **path);

/* Returns the object with that path, NULL if there is none. */
const struct table_object *table_find_object (const char *path);

/* Returns the edge of an object for a needed string, and the answer's path; NULL if there is none, or OBJECT
   is NULL. */
const struct table_edge *table_find_edge (const struct table_object *object, const char *needed,
                                          const char **path);

/* Returns the words of a set, NULL if it is damaged. */
const uint32_t *table_set (uint32_t at, uint32_t *count);

/* Returns the snapshotted directory with that path, with its names verified; NULL if there is
   none. */
const struct table_directory *table_find_directory (const char *path, size_t length);

/* 0: no such name. 1: the name exists, but its file may change. 2: it exists, and is the answer. */
int table_has_name (const struct table_names *names, const char *name);

/* Returns a search directory, with its names verified; NULL if it is damaged. */
const struct table_search_dir *table_search_dir (uint32_t index, const char **path);