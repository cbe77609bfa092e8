/* System calls of x86-64 (Linux arch/x86/entry/syscalls/syscall_64.tbl). */
#define NR_read 0
#define NR_write 1
#define NR_close 3
#define NR_exit_group 231
#define NR_munmap 11
#define NR_getpid 39
#define NR_openat 257
#define NR_readlinkat 267
#define NR_statx 332

static inline long
system_call (long nr, long a, long b, long c, long d, long e)
{
  long result;
  register long r10 __asm__ ("r10") = d;
  register long r8 __asm__ ("r8") = e;
  __asm__ volatile ("syscall"
                    : "=a" (result)
                    : "a" (nr), "D" (a), "S" (b), "d" (c), "r" (r10), "r" (r8)
                    : "rcx", "r11", "memory");
  return result;
}

/* mmap (NULL, size, protection, flags, fd, 0). */
static inline long
system_map (long size, long protection, long flags, long fd)
{
  long result;
  register long r10 __asm__ ("r10") = flags;
  register long r8 __asm__ ("r8") = fd;
  register long r9 __asm__ ("r9") = 0;
  __asm__ volatile ("syscall"
                    : "=a" (result)
                    : "a" (9L), "D" (0L), "S" (size), "d" (protection), "r" (r10), "r" (r8), "r" (r9)
                    : "rcx", "r11", "memory");
  return result;
}
