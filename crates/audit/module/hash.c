/* The hash of docs/index-format.md, and the checks by it. */
#include "hash.h"

static uint64_t
load_word (const unsigned char *bytes)
{
  uint64_t word;
  __builtin_memcpy (&word, bytes, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64 (word);
#endif
  return word;
}

/* Returns the last COUNT bytes, fewer than eight, before END as the low bytes of a number. */
static uint64_t
load_tail (const unsigned char *end, size_t count, int has_eight)
{
  if (has_eight)
    return load_word (end - 8) >> (8 * (8 - count));
  uint64_t word = 0;
  for (size_t i = 0; i < count; i++)
    word |= (uint64_t) end[(ptrdiff_t) i - (ptrdiff_t) count] << (8 * i);
  return word;
}

#define FACTOR 0x9e3779b97f4a7c15u

static uint64_t
mix (uint64_t h, uint64_t word)
{
  h = (h ^ word) * FACTOR;
  return h ^ (h >> 29);
}

uint64_t
hash_bytes (uint64_t seed, const void *bytes, size_t length)
{
  const unsigned char *at = bytes, *end = at + length;
  uint64_t h = seed ^ (length * FACTOR);
  for (; end - at >= 8; at += 8)
    h = mix (h, load_word (at));
  if (at < end)
    h = mix (h, load_tail (end, (size_t) (end - at), length >= 8));
  h ^= h >> 32;
  h *= 0xbf58476d1ce4e5b9u;
  return h ^ (h >> 29);
}

uint64_t
hash_words (uint64_t seed, const uint64_t *words, size_t count)
{
  uint64_t h = seed ^ (8 * count * FACTOR);
  for (size_t i = 0; i < count; i++)
    h = mix (h, words[i]);
  h ^= h >> 32;
  h *= 0xbf58476d1ce4e5b9u;
  return h ^ (h >> 29);
}

uint64_t
hash_block (uint64_t seed, const void *bytes, size_t length)
{
  const unsigned char *at = bytes, *end = at + length;
  uint64_t a = 0, b = 1, c = 2, d = 3;
  for (; end - at >= 32; at += 32)
    {
      a = mix (a, load_word (at));
      b = mix (b, load_word (at + 8));
      c = mix (c, load_word (at + 16));
      d = mix (d, load_word (at + 24));
    }
  seed = mix (mix (mix (mix (seed ^ length, a), b), c), d);
  return hash_bytes (seed, at, (size_t) (end - at));
}
