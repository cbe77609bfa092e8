/* Counts the filters of the calling thread, with the calls of the loader. The kernel says how many
   there are since Linux 5.9; before, they count as one (proc_pid_status of Linux fs/proc/array.c).
   crates/host/src/filters.rs counts those of the process that makes the index. */
#include "filter.h"
#include "system.h"
#include "table.h"

static enum { UNREAD, ALLOWED, FILTERED } state STATE = UNREAD;

/* Returns UINT32_MAX if the number is not known. */
static uint32_t
count_filters (void)
{
  const int close_on_exec = 02000000;
  char bytes[2048], line[32];
  const char *value;
  size_t used = 0;
  uint32_t filters = 0, of_tracer = 0;
  long count, fd = sys_open ("/proc/thread-self/status", close_on_exec, 0);
  /* Before Linux 3.17. */
  if (fd == ENOENT_NEG)
    fd = sys_open ("/proc/self/status", close_on_exec, 0);
  if (fd < 0)
    return UINT32_MAX;
  while ((count = sys_read ((int) fd, bytes, sizeof bytes)) > 0)
    for (long i = 0; i < count; i++)
      {
        if (bytes[i] != '\n')
          {
            if (used < sizeof line - 1)
              line[used++] = bytes[i];
            continue;
          }
        line[used] = '\0';
        used = 0;
        /* A tracer, such as becalm trace, installs a filter that ends nothing. */
        if ((value = text_after (line, "TracerPid:\t")) != NULL)
          of_tracer = *value != '0';
        else if ((value = text_after (line, "Seccomp:\t")) != NULL)
          filters = *value != '0';
        else if ((value = text_after (line, "Seccomp_filters:\t")) != NULL)
          {
            sys_close ((int) fd);
            filters = (uint32_t) read_decimal (&value);
            return filters > of_tracer ? filters - of_tracer : 0;
          }
      }
  sys_close ((int) fd);
  return count == 0 ? filters : UINT32_MAX;
}

int
process_is_filtered (void)
{
  if (state == UNREAD)
    {
      const uint32_t of_index = table_ready () ? table_header ()->filters : 0;
      state = count_filters () > of_index ? FILTERED : ALLOWED;
    }
  return state == FILTERED;
}

/* A filter cannot be removed. */
void
filter_forget (void)
{
  if (state == ALLOWED)
    state = UNREAD;
}
