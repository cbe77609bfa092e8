/* Numbers of the machines that share Linux include/uapi/asm-generic/unistd.h. */
#define NR_openat 56
#define NR_close 57
#define NR_read 63
#define NR_write 64
#define NR_readlinkat 78
#define NR_getpid 172
#define NR_exit_group 94
#define NR_munmap 215
#define NR_statx 291
