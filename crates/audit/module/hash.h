/* The hash by which the table is searched and checked. */
#pragma once

#include "base.h"

uint64_t hash_bytes (uint64_t seed, const void *bytes, size_t length);

/* The same for numbers, each as its eight bytes in little-endian order. */
uint64_t hash_words (uint64_t seed, const uint64_t *words, size_t count);

/* The hash of a block of bindings. Four lanes do not wait for each other's multiplications. */
uint64_t hash_block (uint64_t seed, const void *bytes, size_t length);
