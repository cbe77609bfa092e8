/* System calls of 32-bit ARM, EABI (Linux arch/arm/tools/syscall.tbl). */
#define NUMBER(arm, i386, powerpc64, s390x) arm
#include "old_numbers.h"
/* mmap2, whose offset is in pages. */
#define NR_mmap 192
#define NR_statfs64 266

/* r7 may be the frame pointer of Thumb code, so it is saved by hand. */
static inline long
system_call_6 (long nr, long a, long b, long c, long d, long e, long f)
{
  register long r0 __asm__ ("r0") = a;
  register long r1 __asm__ ("r1") = b;
  register long r2 __asm__ ("r2") = c;
  register long r3 __asm__ ("r3") = d;
  register long r4 __asm__ ("r4") = e;
  register long r5 __asm__ ("r5") = f;
  register long r6 __asm__ ("r6") = nr;
  __asm__ volatile ("mov r8, r7\n\tmov r7, r6\n\tsvc 0\n\tmov r7, r8"
                    : "+r" (r0)
                    : "r" (r1), "r" (r2), "r" (r3), "r" (r4), "r" (r5), "r" (r6)
                    : "memory", "r8", "cc");
  return r0;
}
