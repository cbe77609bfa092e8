/* System calls of i386 (Linux arch/x86/entry/syscalls/syscall_32.tbl). */
#include "old_numbers.h"
#define NR_old_mmap 90
#define NR_exit_group 252
#define NR_openat 295
#define NR_statfs64 268
#define NR_getdents64 220
#define NR_statx 383

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
