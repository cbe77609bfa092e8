/* System calls of 64-bit PowerPC (Linux arch/powerpc/kernel/syscalls/syscall.tbl). */
#define NR_read 3
#define NR_write 4
#define NR_close 6
#define NR_getpid 20
#define NR_exit_group 234
#define NR_munmap 91
#define NR_openat 286
#define NR_readlink 85
#define NR_statfs 99
#define NR_getdents64 202
#define NR_newfstatat 291
#define NR_statx 383

/* The summary overflow bit of cr0 marks an error, whose number then comes positive. */
static inline long
system_call (long nr, long a, long b, long c, long d, long e)
{
  register long r0 __asm__ ("r0") = nr;
  register long r3 __asm__ ("r3") = a;
  register long r4 __asm__ ("r4") = b;
  register long r5 __asm__ ("r5") = c;
  register long r6 __asm__ ("r6") = d;
  register long r7 __asm__ ("r7") = e;
  __asm__ volatile ("sc\n\tbns+ 1f\n\tneg %1, %1\n1:"
                    : "+r" (r0), "+r" (r3), "+r" (r4), "+r" (r5), "+r" (r6), "+r" (r7)
                    :
                    : "memory", "cr0", "ctr", "r8", "r9", "r10", "r11", "r12");
  return r3;
}

/* mmap (NULL, size, protection, flags, fd, 0). */
static inline long
system_map (long size, long protection, long flags, long fd)
{
  register long r0 __asm__ ("r0") = 90;
  register long r3 __asm__ ("r3") = 0;
  register long r4 __asm__ ("r4") = size;
  register long r5 __asm__ ("r5") = protection;
  register long r6 __asm__ ("r6") = flags;
  register long r7 __asm__ ("r7") = fd;
  register long r8 __asm__ ("r8") = 0;
  __asm__ volatile ("sc\n\tbns+ 1f\n\tneg %1, %1\n1:"
                    : "+r" (r0), "+r" (r3), "+r" (r4), "+r" (r5), "+r" (r6), "+r" (r7), "+r" (r8)
                    :
                    : "memory", "cr0", "ctr", "r9", "r10", "r11", "r12");
  return r3;
}
