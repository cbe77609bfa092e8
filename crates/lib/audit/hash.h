/* The hash by which the table is searched and checked. */
#ifndef BECALM_HASH_H
#define BECALM_HASH_H

#include "base.h"

uint64_t hash_bytes (uint64_t seed, const void *bytes, size_t length);

/* The hash of a block of bindings. Four lanes do not wait for each other's multiplications. */
uint64_t hash_block (uint64_t seed, const void *bytes, size_t length);

/* The low half of hash_bytes. */
uint32_t hash_low (uint64_t seed, const void *bytes, size_t length);

#endif
