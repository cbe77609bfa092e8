/* Numbers that every machine shares: those of Linux 5.1 and later. */
#define NR_open_tree 428
#define NR_move_mount 429
#define NR_fsmount 432
#define NR_clone3 435
#define NR_close_range 436
#define NR_openat2 437
#define NR_faccessat2 439
#define NR_mount_setattr 442
#define NR_fchmodat2 452
