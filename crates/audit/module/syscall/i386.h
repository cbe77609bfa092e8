/* System calls of i386 (Linux arch/x86/entry/syscalls/syscall_32.tbl). */
#include "old_numbers.h"
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

/* mmap (NULL, size, protection, flags, fd, 0) in its old form, which takes the
   arguments in memory. */
static inline long
system_map (long size, long protection, long flags, long fd)
{
  long arguments[6] = { 0, size, protection, flags, fd, 0 };
  return system_call (90, (long) arguments, 0, 0, 0, 0);
}
