/* The environment of a start by the index. */
#pragma once

#include "system.h"

/* The three variables that becalm adds to: LD_AUDIT, GLIBC_TUNABLES, BECALM. */
#define VARIABLES 3

/* The number of all variables, and the positions of those three in the environment; NONE if one is not set. */
struct variables
{
  size_t count, at[VARIABLES];
};

#define NONE ((size_t) -1)

/* Reads the environment. Returns 0 if a start by the index is not wanted (BECALM=off) or could not be
   right: a variable is set twice, or libraries are preloaded, whose static TLS is unknown. */
int variables_read (char **environment, struct variables *variables);

/* The values that are added. HELPER is the becalm that reads ahead, PAGES the folder of ready pages; empty
   if there is none. */
struct additions
{
  const char *module, *helper, *pages;
  uint32_t static_tls;
};

/* Returns the bytes of text that variables_add writes. */
size_t variables_size (char **environment, const struct variables *variables,
                       const struct additions *additions);

/* Copies the environment with the additions of crates/lib/src/index/variables.rs (`and_only`). TO has
   room for three more pointers, and for the null at the end; TEXT for variables_size bytes. */
void variables_add (char **environment, const struct variables *variables,
                    const struct additions *additions, char **to, char *text);
