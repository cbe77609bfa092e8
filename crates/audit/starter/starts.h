/* The file of the starts that becalm has switched on: which program a name leads to, the static TLS
   that it needs, and the becalm that reads ahead. Written by crates/lib/src/on/table.rs. */
#pragma once

#include "started.h"

struct start
{
  struct identity program;
  uint32_t static_tls;
  /* Offsets in the file: of the name, and of the program's path. */
  uint32_t name, path;
  /* Whether it uses ready pages. */
  uint32_t shares_pages;
};

struct starts
{
  char magic[8];
  /* hash_bytes with this seed of all that follows. */
  uint64_t check;
  struct identity index;
  uint32_t count, length;
  /* Offsets of the path of becalm, which is empty if nothing is read ahead, of the folder of ready
     pages, and of that of counts. */
  uint32_t helper, pages, counts, spare;
  struct start start[];
};

#define STARTS_MAGIC "becalm\0\4"
#define STARTS_SEED 3u
/* The largest file. */
#define STARTS_LARGEST 0x400000u
