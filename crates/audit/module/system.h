/* The few system calls of the module. A negative result is an errno. */
#pragma once

#include "base.h"

#if defined __x86_64__
# include "syscall/x86_64.h"
#elif defined __aarch64__
# include "syscall/aarch64.h"
#elif defined __arm__
# include "syscall/arm.h"
#elif defined __i386__
# include "syscall/i386.h"
#elif defined __riscv
# include "syscall/riscv64.h"
#elif defined __powerpc64__
# include "syscall/powerpc64.h"
#elif defined __s390x__
# include "syscall/s390x.h"
#endif

#ifdef NR_mmap
static inline long
system_call (long nr, long a, long b, long c, long d, long e)
{
  return system_call_6 (nr, a, b, c, d, e, 0);
}
#endif

#define AT_FDCWD (-100)
/* O_CLOEXEC, SOCK_CLOEXEC; O_NONBLOCK, SOCK_NONBLOCK. */
#define CLOSE_ON_EXEC 02000000
#define NONBLOCK 04000
/* AT_EMPTY_PATH, AT_STATX_DONT_SYNC. */
#define EMPTY_PATH 0x1000
#define DONT_SYNC 0x4000
#define ENOENT_NEG (-2)
#define EACCES_NEG (-13)
#define ENOTDIR_NEG (-20)
#define EINVAL_NEG (-22)
#define EFAULT_NEG (-14)

/* struct statx of Linux include/uapi/linux/stat.h: one layout on every machine. */
struct statx_time
{
  int64_t sec;
  uint32_t nsec;
  int32_t pad;
};

struct statx
{
  uint32_t mask, blksize;
  uint64_t attributes;
  uint32_t nlink, uid, gid;
  uint16_t mode, pad0;
  uint64_t ino, size, blocks, attributes_mask;
  struct statx_time atime, btime, ctime, mtime;
  uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
  uint64_t spare[14];
};

#define STATX_BASIC_STATS 0x7ffu
/* Linux 6.8: a number of the mount that no other mount has until the next boot. */
#define STATX_MNT_ID_UNIQUE 0x4000u

/* struct statfs of Linux include/uapi/asm-generic/statfs.h; struct statfs64 on 32-bit machines, and
   of arch/s390/include/uapi/asm/statfs.h. */
#if __SIZEOF_POINTER__ == 8 && !defined __s390x__
typedef uint64_t statfs_word;
#else
typedef uint32_t statfs_word;
#endif
struct statfs
{
  statfs_word type, bsize;
  uint64_t blocks, bfree, bavail, files, ffree;
  uint32_t fsid[2];
  statfs_word namelen, frsize, flags, spare[5];
};

/* True for a regular file that every user may read. */
static inline int
statx_is_for_all (const struct statx *found)
{
  return (found->mode & 0170004) == 0100004;
}

/* Filters (seccomp) for a program allow the calls of its C library, and may end the process at others.
   On machines of 64 bits the library and the loader use newfstatat, on others statx since 2.34. */
#ifdef NR_newfstatat
/* struct stat of Linux arch/x86/include/uapi/asm/stat.h and its like. */
struct stat
{
  uint64_t dev, ino;
# if defined __x86_64__ || defined __powerpc64__ || defined __s390x__
  uint64_t nlink;
  uint32_t mode, uid, gid, pad;
  uint64_t rdev, size;
# else
  uint32_t mode, nlink, uid, gid;
  uint64_t rdev, pad, size;
# endif
# ifndef __s390x__
  uint64_t blksize, blocks;
# endif
  uint64_t atime, atime_nsec, mtime, mtime_nsec, ctime, ctime_nsec;
  uint64_t spare[5];
};

static inline long
sys_stat_at (int directory, const char *path, int flags, struct statx *result)
{
  struct stat found;
  long error = system_call (NR_newfstatat, directory, (long) path, (long) &found, flags, 0);
  if (error != 0)
    return error;
  memset (result, 0, sizeof *result);
  result->mode = (uint16_t) found.mode;
  result->uid = found.uid;
  result->ino = found.ino;
  result->size = found.size;
  result->mtime = (struct statx_time) { (int64_t) found.mtime, (uint32_t) found.mtime_nsec, 0 };
  result->ctime = (struct statx_time) { (int64_t) found.ctime, (uint32_t) found.ctime_nsec, 0 };
  /* new_encode_dev of Linux include/linux/kdev_t.h. */
  result->dev_major = found.dev >> 8 & 0xfff;
  result->dev_minor = (found.dev & 0xff) | (found.dev >> 12 & 0xfff00);
  return 0;
}
#else
static inline long
sys_stat_at (int directory, const char *path, int flags, struct statx *result)
{
  return system_call (NR_statx, directory, (long) path, flags, STATX_BASIC_STATS, (long) result);
}
#endif

/* Of the result only mode, owner, inode, size, both times of change and the device are set. */
static inline long
sys_stat (const char *path, struct statx *result)
{
  return sys_stat_at (AT_FDCWD, path, 0, result);
}

static inline long
sys_stat_open (int fd, struct statx *result)
{
  return sys_stat_at (fd, "", EMPTY_PATH, result);
}

static inline uint64_t
device_of (const struct statx *found)
{
  return (uint64_t) found->dev_major << 32 | found->dev_minor;
}

static inline long
sys_readlink (const char *path, char *buffer, size_t size)
{
#ifdef NR_readlink
  return system_call (NR_readlink, (long) path, (long) buffer, (long) size, 0, 0);
#else
  return system_call (NR_readlinkat, AT_FDCWD, (long) path, (long) buffer, (long) size, 0);
#endif
}

static inline long
sys_open (const char *path, int flags, int mode)
{
  return system_call (NR_openat, AT_FDCWD, (long) path, flags, mode, 0);
}

static inline long
sys_read (int fd, void *buffer, size_t size)
{
  return system_call (NR_read, fd, (long) buffer, (long) size, 0, 0);
}

/* Maps memory, or a file from its beginning; NULL if that fails. */
static inline void *
sys_map_as (size_t size, long protection, long flags, int fd)
{
#ifdef NR_mmap
  long mapped = system_call_6 (NR_mmap, 0, (long) size, protection, flags, fd, 0);
#else
  /* The old form, which takes the arguments in memory. */
  long arguments[6] = { 0, (long) size, protection, flags, fd, 0 };
  long mapped = system_call (NR_old_mmap, (long) arguments, 0, 0, 0, 0);
#endif
  return (unsigned long) mapped < -4095UL ? (void *) mapped : NULL;
}

/* Maps the whole of a file, readable; NULL if that fails. */
static inline const unsigned char *
sys_map (int fd, size_t size)
{
  const int readable = 1, private = 2;
  return sys_map_as (size, readable, private, fd);
}

/* Maps SIZE bytes of zeros; NULL if there is no memory. */
static inline void *
sys_allocate (size_t size)
{
  const int readable_writable = 3, private_anonymous = 0x22;
  return sys_map_as (size, readable_writable, private_anonymous, -1);
}

static inline long
sys_write (int fd, const void *bytes, size_t size)
{
  return system_call (NR_write, fd, (long) bytes, (long) size, 0, 0);
}

static inline long
sys_close (int fd)
{
  return system_call (NR_close, fd, 0, 0, 0, 0);
}

/* Reads at most SIZE bytes of a file; returns their number, or a negative one if it cannot be read. */
static inline long
sys_read_file (const char *path, void *to, size_t size)
{
  size_t used = 0;
  long got = 0, fd = sys_open (path, CLOSE_ON_EXEC | NONBLOCK, 0);
  if (fd < 0)
    return fd;
  while (used < size && (got = sys_read ((int) fd, (char *) to + used, size - used)) > 0)
    used += (size_t) got;
  sys_close ((int) fd);
  return got < 0 ? got : (long) used;
}

/* True if the file is an object for this machine, by its header. */
static inline int
file_fits (const char *path)
{
  elf_ehdr header;
  return sys_read_file (path, &header, sizeof header) == sizeof header && memcmp (header.ident, "\177ELF", 4) == 0
         && header.ident[4] == ELF_CLASS && header.ident[5] == DATA_ENCODING
         && header.machine == ELF_MACHINE;
}

static inline void
sys_exit (int status)
{
  system_call (NR_exit_group, status, 0, 0, 0, 0);
}

static inline long
sys_getpid (void)
{
  return system_call (NR_getpid, 0, 0, 0, 0, 0);
}

static inline long
sys_unmap (const void *from, size_t size)
{
  return system_call (NR_munmap, (long) from, (long) size, 0, 0, 0);
}
