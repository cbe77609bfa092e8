/* Numbers that the machines share whose first ones are those of i386. NUMBER has those that differ. */
#define NR_read 3
#define NR_write 4
#define NR_close 6
#define NR_getpid 20
#define NR_readlink 85
#define NR_munmap 91
#define NR_exit_group NUMBER (248, 252, 234, 248)
#define NR_openat NUMBER (322, 295, 286, 288)
#define NR_getdents64 NUMBER (217, 220, 202, 220)
#define NR_statx NUMBER (397, 383, 383, 379)
