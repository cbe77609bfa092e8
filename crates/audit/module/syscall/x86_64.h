/* System calls of x86-64 (Linux arch/x86/entry/syscalls/syscall_64.tbl). */
#define NR_read 0
#define NR_write 1
#define NR_open 2
#define NR_close 3
#define NR_stat 4
#define NR_fstat 5
#define NR_lstat 6
#define NR_lseek 8
#define NR_mmap 9
#define NR_munmap 11
#define NR_ioctl 16
#define NR_pread64 17
#define NR_access 21
#define NR_getpid 39
#define NR_socket 41
#define NR_connect 42
#define NR_sendmsg 46
#define NR_recvmsg 47
#define NR_getsockopt 55
#define NR_clone 56
#define NR_fork 57
#define NR_vfork 58
#define NR_execve 59
#define NR_wait4 61
#define NR_kill 62
#define NR_fcntl 72
#define NR_flock 73
#define NR_getcwd 79
#define NR_rename 82
#define NR_mkdir 83
#define NR_rmdir 84
#define NR_creat 85
#define NR_link 86
#define NR_unlink 87
#define NR_symlink 88
#define NR_readlink 89
#define NR_chmod 90
#define NR_fchmod 91
#define NR_chown 92
#define NR_fchown 93
#define NR_lchown 94
#define NR_getrusage 98
#define NR_setuid 105
#define NR_setgid 106
#define NR_geteuid 107
#define NR_setreuid 113
#define NR_setregid 114
#define NR_setgroups 116
#define NR_setresuid 117
#define NR_setresgid 119
#define NR_setfsuid 122
#define NR_setfsgid 123
#define NR_capset 126
#define NR_utime 132
#define NR_mknod 133
#define NR_statfs 137
#define NR_pivot_root 155
#define NR_prctl 157
#define NR_chroot 161
#define NR_mount 165
#define NR_umount2 166
#define NR_setxattr 188
#define NR_lsetxattr 189
#define NR_fsetxattr 190
#define NR_removexattr 197
#define NR_lremovexattr 198
#define NR_fremovexattr 199
#define NR_getdents64 217
#define NR_fadvise64 221
#define NR_clock_gettime 228
#define NR_exit_group 231
#define NR_utimes 235
#define NR_waitid 247
#define NR_openat 257
#define NR_mkdirat 258
#define NR_mknodat 259
#define NR_fchownat 260
#define NR_futimesat 261
#define NR_newfstatat 262
#define NR_unlinkat 263
#define NR_renameat 264
#define NR_linkat 265
#define NR_symlinkat 266
#define NR_readlinkat 267
#define NR_fchmodat 268
#define NR_faccessat 269
#define NR_ppoll 271
#define NR_unshare 272
#define NR_utimensat 280
#define NR_dup3 292
#define NR_prlimit64 302
#define NR_setns 308
#define NR_renameat2 316
#define NR_seccomp 317
#define NR_userfaultfd 323
#define NR_preadv2 327
#define NR_statx 332
#include "new_numbers.h"

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
