/* System calls of z/Architecture (Linux arch/s390/kernel/syscalls/syscall.tbl). */
#define NUMBER(arm, i386, powerpc64, s390x) s390x
#include "old_numbers.h"
#define NR_old_mmap 90
#define NR_statfs 99
#define NR_newfstatat 293

static inline long
system_call (long nr, long a, long b, long c, long d, long e)
{
  register long r1 __asm__ ("1") = nr;
  register long r2 __asm__ ("2") = a;
  register long r3 __asm__ ("3") = b;
  register long r4 __asm__ ("4") = c;
  register long r5 __asm__ ("5") = d;
  register long r6 __asm__ ("6") = e;
  __asm__ volatile ("svc 0"
                    : "+d" (r2)
                    : "d" (r1), "d" (r3), "d" (r4), "d" (r5), "d" (r6)
                    : "memory", "cc");
  return r2;
}
