/* System calls of x86-64. */
#define NUMBER(x86_64, generic) x86_64
#include "numbers.h"
/* Those that other machines do not have. */
#define NR_open 2
#define NR_stat 4
#define NR_fstat 5
#define NR_lstat 6
#define NR_access 21
#define NR_fork 57
#define NR_vfork 58
#define NR_kill 62
#define NR_rename 82
#define NR_mkdir 83
#define NR_rmdir 84
#define NR_creat 85
#define NR_link 86
#define NR_unlink 87
#define NR_symlink 88
#define NR_readlink 89
#define NR_chmod 90
#define NR_chown 92
#define NR_lchown 94
#define NR_utime 132
#define NR_mknod 133
#define NR_utimes 235
#define NR_futimesat 261

static inline long
system_call_6 (long nr, long a, long b, long c, long d, long e, long f)
{
  long result;
  register long r10 __asm__ ("r10") = d;
  register long r8 __asm__ ("r8") = e;
  register long r9 __asm__ ("r9") = f;
  __asm__ volatile ("syscall"
                    : "=a" (result)
                    : "a" (nr), "D" (a), "S" (b), "d" (c), "r" (r10), "r" (r8), "r" (r9)
                    : "rcx", "r11", "memory");
  return result;
}
