/* System calls of 64-bit PowerPC (Linux arch/powerpc/kernel/syscalls/syscall.tbl). */
#define NUMBER(arm, i386, powerpc64, s390x) powerpc64
#include "old_numbers.h"
#define NR_mmap 90
#define NR_statfs 99
#define NR_newfstatat 291

/* The summary overflow bit of cr0 marks an error, whose number then comes positive. */
static inline long
system_call_6 (long nr, long a, long b, long c, long d, long e, long f)
{
  register long r0 __asm__ ("r0") = nr;
  register long r3 __asm__ ("r3") = a;
  register long r4 __asm__ ("r4") = b;
  register long r5 __asm__ ("r5") = c;
  register long r6 __asm__ ("r6") = d;
  register long r7 __asm__ ("r7") = e;
  register long r8 __asm__ ("r8") = f;
  __asm__ volatile ("sc\n\tbns+ 1f\n\tneg %1, %1\n1:"
                    : "+r" (r0), "+r" (r3), "+r" (r4), "+r" (r5), "+r" (r6), "+r" (r7), "+r" (r8)
                    :
                    : "memory", "cr0", "ctr", "r9", "r10", "r11", "r12");
  return r3;
}
