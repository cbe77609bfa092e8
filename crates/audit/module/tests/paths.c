/* Asks each question twice, by a function of libc, which may have a stub, and by a system call of its
   own, and compares result, errno and what was filled in.

     paths STORE LIST THREADS QUESTIONS SEED

   LIST has a line for each path below STORE. A path is asked for as it is, or changed. If only the
   function says that a path is not there, it is asked again for two seconds: a change by another
   process may be seen late (docs/paths.md). Prints `asked N absent N late N wrong N`. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined __x86_64__
# include "../syscall/x86_64.h"
#elif defined __aarch64__
# include "../syscall/aarch64.h"
#else
# error "no stubs for this machine"
#endif
#define system_call(...) system_call_6 (__VA_ARGS__, 0)

#define LONGEST 6000
static const char *store;
static char **paths;
static size_t path_count;
static long questions;
static unsigned long seed;
static long asked, absents, late, wrong;

static unsigned
draw (unsigned long *state)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned) (*state >> 33);
}

/* The result of a call: 0 or -errno, and a hash of the returned data. */
struct answer
{
  long result;
  unsigned long filled;
};

static unsigned long
hash (const void *bytes, size_t count)
{
  unsigned long h = 14695981039346656037u;
  for (size_t i = 0; i < count; i++)
    h = (h ^ ((const unsigned char *) bytes)[i]) * 1099511628211u;
  return h;
}

static struct answer
of_stat (long result, struct stat *found)
{
  if (result < 0)
    return (struct answer) { result, 0 };
  memset (&found->st_atim, 0, sizeof found->st_atim);
  return (struct answer) { 0, hash (found, sizeof *found) };
}

static struct answer
of_statx (long result, struct statx *found)
{
  if (result < 0)
    return (struct answer) { result, 0 };
  /* The requested fields; the kernel may fill more. */
  unsigned long numbers[] = { found->stx_mode, found->stx_ino, found->stx_size, found->stx_nlink,
                              found->stx_uid, found->stx_gid, found->stx_dev_minor,
                              found->stx_dev_major, found->stx_blocks,
                              (unsigned long) found->stx_mtime.tv_sec,
                              found->stx_mtime.tv_nsec, (unsigned long) found->stx_ctime.tv_sec,
                              found->stx_ctime.tv_nsec };
  return (struct answer) { 0, hash (numbers, sizeof numbers) };
}

static struct answer
of_fd (long fd, int by_kernel)
{
  if (fd < 0)
    return (struct answer) { fd, 0 };
  if (by_kernel)
    system_call (SYS_close, fd, 0, 0, 0, 0);
  else
    close ((int) fd);
  return (struct answer) { 0, 0 };
}

static struct answer
of_text (long length, const char *text)
{
  return length < 0 ? (struct answer) { length, 0 }
                    : (struct answer) { 0, hash (text, (size_t) length) };
}

#define KINDS 15
/* Returns the errno of a function that failed. */
#define E(call) ((call) < 0 ? -errno : 0)

static struct answer
by_function (unsigned kind, const char *path)
{
  struct stat found = { 0 };
  struct statx found_x = { 0 };
  char text[LONGEST];
  void *opened;
  errno = 0;
  switch (kind)
    {
    case 0: return of_stat (E (stat (path, &found)), &found);
    case 1: return of_stat (E (lstat (path, &found)), &found);
    case 2: return of_stat (E (fstatat (AT_FDCWD, path, &found, AT_SYMLINK_NOFOLLOW)), &found);
    case 3: return of_statx (E (statx (AT_FDCWD, path, 0, STATX_BASIC_STATS, &found_x)), &found_x);
    case 4:
      return of_statx (E (syscall (SYS_statx, AT_FDCWD, path, 0, STATX_BASIC_STATS, &found_x)),
                       &found_x);
    case 5: { int fd = open (path, O_RDONLY | O_NONBLOCK); return of_fd (fd < 0 ? -errno : fd, 0); }
    case 6: { int fd = openat (AT_FDCWD, path, O_RDONLY | O_NONBLOCK); return of_fd (fd < 0 ? -errno : fd, 0); }
    case 7: return (struct answer) { E (access (path, R_OK)), 0 };
    case 8: return (struct answer) { E (faccessat (AT_FDCWD, path, F_OK, 0)), 0 };
    case 9: { ssize_t n = readlink (path, text, sizeof text); return of_text (n < 0 ? -errno : n, text); }
    case 10: { ssize_t n = readlinkat (AT_FDCWD, path, text, sizeof text); return of_text (n < 0 ? -errno : n, text); }
    case 11:
      opened = fopen (path, "r");
      if (opened == NULL)
        return (struct answer) { -errno, 0 };
      fclose (opened);
      return (struct answer) { 0, 0 };
    case 12:
      opened = opendir (path);
      if (opened == NULL)
        return (struct answer) { -errno, 0 };
      closedir (opened);
      return (struct answer) { 0, 0 };
    case 13:
      {
        char *real = realpath (path, NULL);
        if (real == NULL)
          return (struct answer) { -errno, 0 };
        struct answer answer = of_text ((long) strlen (real), real);
        free (real);
        return answer;
      }
    default: { long fd = syscall (SYS_openat, AT_FDCWD, path, O_RDONLY | O_NONBLOCK); return of_fd (fd < 0 ? -errno : fd, 0); }
    }
}

static struct answer
by_kernel (unsigned kind, const char *path)
{
  struct stat found = { 0 };
  struct statx found_x = { 0 };
  char text[LONGEST];
  long at = AT_FDCWD, p = (long) path;
  switch (kind)
    {
    case 0: return of_stat (system_call (SYS_newfstatat, at, p, (long) &found, 0, 0), &found);
    case 1: case 2:
      return of_stat (system_call (SYS_newfstatat, at, p, (long) &found, AT_SYMLINK_NOFOLLOW, 0), &found);
    case 3: case 4:
      return of_statx (system_call (SYS_statx, at, p, 0, STATX_BASIC_STATS, (long) &found_x), &found_x);
    case 7: return (struct answer) { system_call (SYS_faccessat, at, p, R_OK, 0, 0), 0 };
    case 8: return (struct answer) { system_call (SYS_faccessat, at, p, F_OK, 0, 0), 0 };
    case 9: case 10: return of_text (system_call (SYS_readlinkat, at, p, (long) text, sizeof text, 0), text);
    case 11: return of_fd (system_call (SYS_openat, at, p, O_RDONLY, 0, 0), 1);
    case 12: return of_fd (system_call (SYS_openat, at, p, O_RDONLY | O_NONBLOCK | O_DIRECTORY, 0, 0), 1);
    case 13:
      {
        long fd = system_call (SYS_openat, at, p, O_PATH, 0, 0), length;
        char link[40];
        if (fd < 0)
          return (struct answer) { fd, 0 };
        snprintf (link, sizeof link, "/proc/self/fd/%ld", fd);
        length = system_call (SYS_readlinkat, at, (long) link, (long) text, sizeof text, 0);
        system_call (SYS_close, fd, 0, 0, 0, 0);
        return of_text (length, text);
      }
    default: return of_fd (system_call (SYS_openat, at, p, O_RDONLY | O_NONBLOCK, 0, 0), 1);
    }
}

static int
same (struct answer a, struct answer b)
{
  return a.result == b.result && a.filled == b.filled;
}

static void
ask (const char *path, unsigned long *state)
{
  unsigned kind = draw (state) % KINDS;
  const unsigned real = 13;
  /* realpath has no length limit of its own for a path that it resolves name by name. */
  if (kind == real && strlen (path) > 4000)
    return;
  struct answer kernel = by_kernel (kind, path), function = by_function (kind, path);
  __atomic_fetch_add (&asked, 1, __ATOMIC_RELAXED);
  if (function.result == -ENOENT)
    __atomic_fetch_add (&absents, 1, __ATOMIC_RELAXED);
  if (same (function, kernel))
    return;
  struct timespec begin, now;
  clock_gettime (CLOCK_MONOTONIC, &begin);
  for (int is_over = 0; !is_over;)
    {
      usleep (10000);
      clock_gettime (CLOCK_MONOTONIC, &now);
      is_over = now.tv_sec * 10 + now.tv_nsec / 100000000 > begin.tv_sec * 10 + begin.tv_nsec / 100000000 + 21;
      function = by_function (kind, path);
      kernel = by_kernel (kind, path);
      if (same (function, kernel))
        {
          __atomic_fetch_add (&late, 1, __ATOMIC_RELAXED);
          return;
        }
    }
  __atomic_fetch_add (&wrong, 1, __ATOMIC_RELAXED);
  printf ("differs: question %u, %.300s: %ld, by the kernel %ld\n", kind, path, function.result,
          kernel.result);
}

/* Other spellings of a path, and ways to break it. */
static void
change (char *path, unsigned long *state)
{
  char *name = strchr (path + strlen (store) + 1, '/'), *last = strrchr (path, '/');
  char tail[LONGEST];
  size_t length = strlen (path);
  switch (draw (state) % 14)
    {
    case 0: strcat (path, "x"); break;
    case 1: strcat (path, "/y"); break;
    case 2: strcat (path, "/../z"); break;
    case 3: strcat (path, "/"); break;
    case 4: path[length - 1] = '\0'; break;
    case 5:
      snprintf (tail, sizeof tail, "//./%s", last + 1);
      strcpy (last, tail);
      break;
    case 6: if (name != NULL) name[1] ^= 1; break;
    case 7: strcpy (last, "/nothing/at/all"); break;
    case 8: path[strlen (store) + 3] ^= 1; break;
    case 9:
      path[length] = '/';
      memset (path + length + 1, 'n', 260);
      path[length + 261] = '\0';
      break;
    case 10: strcpy (last, "/.."); break;
    case 11:
      while (length < 4200)
        path[length++] = '/';
      strcpy (path + length, "no");
      break;
    }
}

static void *
run (void *number)
{
  unsigned long state = seed * 1000 + (unsigned long) number;
  char path[LONGEST];
  for (long i = 0; i < questions; i++)
    {
      snprintf (path, sizeof path, "%s/%s", store, paths[draw (&state) % path_count]);
      change (path, &state);
      ask (path, &state);
    }
  return NULL;
}

int
main (int count, char **arguments)
{
  if (count != 6)
    return 2;
  store = arguments[1];
  FILE *list = fopen (arguments[2], "r");
  long threads = atol (arguments[3]);
  seed = strtoul (arguments[5], NULL, 10);
  char line[LONGEST];
  while (list != NULL && fgets (line, sizeof line, list) != NULL)
    {
      line[strcspn (line, "\n")] = '\0';
      paths = realloc (paths, (path_count + 1) * sizeof *paths);
      paths[path_count++] = strdup (line);
    }
  if (path_count == 0 || threads < 1 || threads > 64)
    return 2;
  questions = atol (arguments[4]) / threads;
  pthread_t made[64];
  if (threads == 1)
    run (NULL);
  for (long i = 0; threads > 1 && i < threads; i++)
    pthread_create (&made[i], NULL, run, (void *) i);
  for (long i = 0; threads > 1 && i < threads; i++)
    pthread_join (made[i], NULL);
  printf ("asked %ld absent %ld late %ld wrong %ld\n", asked, absents, late, wrong);
  return wrong != 0;
}
