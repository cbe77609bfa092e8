/* How a process was started, from its stack, and how it becomes another program. */
#pragma once

#include "system.h"

#define PATH_SIZE 4096u

struct process
{
  char **arguments, **environment;
  size_t argument_count, variable_count;
  /* The path given to execve. */
  const char *executed;
  uint32_t user;
  int is_secure;
};

static inline void
read_process (void **stack, struct process *process)
{
  process->argument_count = (size_t) (uintptr_t) stack[0];
  process->arguments = (char **) (stack + 1);
  process->environment = process->arguments + process->argument_count + 1;
  process->variable_count = 0;
  while (process->environment[process->variable_count] != NULL)
    process->variable_count++;
  const elf_auxv *aux = (const elf_auxv *) (process->environment + process->variable_count + 1);
  process->user = (uint32_t) auxiliary (aux, AUX_EUID);
  process->is_secure = auxiliary (aux, AUX_SECURE) != 0;
  process->executed = (const char *) auxiliary (aux, AUX_EXECFN);
  if (process->executed == NULL)
    process->executed = "";
}

/* Returns the value of a variable; NULL if it is not set. */
static inline const char *
value_in (char **environment, const char *name)
{
  const char *value = NULL;
  for (; *environment != NULL && value == NULL; environment++)
    value = value_of (*environment, name);
  return value;
}

static inline long
execute (const char *path, char **arguments, char **environment)
{
  return system_call (NR_execve, (long) path, (long) arguments, (long) environment, 0, 0);
}

/* Writes NAME in the first directory of a list, and moves *LIST to the next one, NULL at the end; returns 0 if it is
   too long. */
static inline int
join_next (char to[PATH_SIZE], const char **list, const char *name)
{
  const char *directory = *list;
  const size_t length = length_to (directory, ':');
  *list = directory[length] == ':' ? directory + length + 1 : NULL;
  return join_path (to, PATH_SIZE, directory, length, name);
}

/* A file, as far as `stat` tells it from another. */
struct identity
{
  uint64_t inode, size, seconds, nanoseconds;
};

/* True if the file that was found is the one that was known. */
static inline int
identity_is (const struct identity *identity, const struct statx *found)
{
  return identity->inode == found->ino && identity->size == found->size
         && identity->seconds == (uint64_t) found->mtime.sec
         && identity->nanoseconds == found->mtime.nsec;
}

/* True if only root and USER can write to what was found. */
static inline int
is_own (const struct statx *found, uint32_t user)
{
  const uint32_t writable = 022;
  return (found->uid == 0 || found->uid == user) && (found->mode & writable) == 0;
}

/* Opens a regular file, with its size, if only they can write it; else returns a negative number. */
static inline long
open_own (const char *path, uint32_t user, size_t *size)
{
  struct statx found;
  const long fd = sys_open (path, CLOSE_ON_EXEC | NONBLOCK, 0);
  if (fd < 0)
    return fd;
  if (sys_stat_open ((int) fd, &found) == 0 && (found.mode & 0170000) == 0100000
      && is_own (&found, user))
    {
      *size = (size_t) found.size;
      return fd;
    }
  sys_close ((int) fd);
  return -1;
}
