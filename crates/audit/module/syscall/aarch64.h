/* System calls of AArch64 (Linux include/uapi/asm-generic/unistd.h). */
#include "generic_numbers.h"

static inline long
system_call (long nr, long a, long b, long c, long d, long e)
{
  register long x8 __asm__ ("x8") = nr;
  register long x0 __asm__ ("x0") = a;
  register long x1 __asm__ ("x1") = b;
  register long x2 __asm__ ("x2") = c;
  register long x3 __asm__ ("x3") = d;
  register long x4 __asm__ ("x4") = e;
  __asm__ volatile ("svc 0"
                    : "+r" (x0)
                    : "r" (x8), "r" (x1), "r" (x2), "r" (x3), "r" (x4)
                    : "memory", "cc");
  return x0;
}

/* mmap (NULL, size, protection, flags, fd, 0). */
static inline long
system_map (long size, long protection, long flags, long fd)
{
  register long x8 __asm__ ("x8") = 222;
  register long x0 __asm__ ("x0") = 0;
  register long x1 __asm__ ("x1") = size;
  register long x2 __asm__ ("x2") = protection;
  register long x3 __asm__ ("x3") = flags;
  register long x4 __asm__ ("x4") = fd;
  register long x5 __asm__ ("x5") = 0;
  __asm__ volatile ("svc 0"
                    : "+r" (x0)
                    : "r" (x8), "r" (x1), "r" (x2), "r" (x3), "r" (x4), "r" (x5)
                    : "memory", "cc");
  return x0;
}
