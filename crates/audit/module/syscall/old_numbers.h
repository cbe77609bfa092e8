/* Numbers that the machines share whose first ones are those of i386. */
#define NR_read 3
#define NR_write 4
#define NR_close 6
#define NR_getpid 20
#define NR_readlink 85
#define NR_munmap 91
