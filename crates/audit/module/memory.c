/* The memory functions a compiler may call by itself, and one more. */
#include <stdarg.h>
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

/* Eight bytes at a time, once the address is a multiple of eight: such a word never crosses a
   page boundary. */
size_t
strlen (const char *s)
{
  const uint64_t ones = 0x0101010101010101u;
  const char *at = s;
  for (; (uintptr_t) at % 8 != 0; at++)
    if (*at == '\0')
      return (size_t) (at - s);
  for (;; at += 8)
    {
      uint64_t word;
      __builtin_memcpy (&word, at, 8);
      /* A bit for the first zero byte, and perhaps others after it. */
      if (((word - ones) & ~word & ones << 7) != 0)
        break;
    }
  while (*at != '\0')
    at++;
  return (size_t) (at - s);
}

/* Not by an array of texts: the compiler could make a constant of it, which the loader has to relocate. */
int
concatenate (char *to, size_t size, ...)
{
  size_t length = 0;
  const char *text;
  va_list texts;
  va_start (texts, size);
  while ((text = va_arg (texts, const char *)) != NULL && length + strlen (text) < size)
    {
      memcpy (to + length, text, strlen (text));
      length += strlen (text);
    }
  va_end (texts);
  to[length] = '\0';
  return text == NULL;
}
