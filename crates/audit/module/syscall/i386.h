/* System calls of i386 (Linux arch/x86/entry/syscalls/syscall_32.tbl). */
#define NUMBER(arm, i386, powerpc64, s390x) i386
#include "old_numbers.h"
#define NR_old_mmap 90
#define NR_statfs64 268

static inline long
system_call (long nr, long a, long b, long c, long d, long e)
{
  long result;
  __asm__ volatile ("int $0x80"
                    : "=a" (result)
                    : "a" (nr), "b" (a), "c" (b), "d" (c), "S" (d), "D" (e)
                    : "memory", "cc");
  return result;
}
