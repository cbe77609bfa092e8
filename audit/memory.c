/* The memory functions a compiler may call by itself. */
#include "base.h"

void *
memcpy (void *to, const void *from, size_t n)
{
  unsigned char *t = to;
  const unsigned char *f = from;
  while (n-- > 0)
    *t++ = *f++;
  return to;
}

void *
memset (void *to, int byte, size_t n)
{
  unsigned char *t = to;
  while (n-- > 0)
    *t++ = (unsigned char) byte;
  return to;
}

int
memcmp (const void *a, const void *b, size_t n)
{
  const unsigned char *x = a, *y = b;
  for (; n >= 8; n -= 8, x += 8, y += 8)
    {
      uint64_t u, v;
      __builtin_memcpy (&u, x, 8);
      __builtin_memcpy (&v, y, 8);
      if (u != v)
        break;
    }
  for (; n > 0; n--, x++, y++)
    if (*x != *y)
      return *x - *y;
  return 0;
}

size_t
strlen (const char *s)
{
  size_t n = 0;
  while (s[n] != '\0')
    n++;
  return n;
}
