/* Counts the filters of the calling thread, with the calls of the loader. The kernel says how many
   there are since Linux 5.9; before, they count as one (proc_pid_status of Linux fs/proc/array.c).
   crates/host/src/filters.rs counts those of the process that makes the index. */
#include "filter.h"
#include "fields.h"
#include "system.h"
#include "table.h"

static enum { UNREAD, ALLOWED, FILTERED } state STATE = UNREAD;

struct status
{
  /* The number that the line has. */
  enum { OTHER, TRACER, MODE, FILTERS } line;
  uint32_t of_tracer, filters;
};

static int
see_status (void *context, unsigned number, const char *text, size_t length)
{
  struct status *status = context;
  (void) length;
  if (number == 0)
    status->line = text_equal (text, "TracerPid:")         ? TRACER
                   : text_equal (text, "Seccomp:")         ? MODE
                   : text_equal (text, "Seccomp_filters:") ? FILTERS
                                                           : OTHER;
  /* A tracer, such as becalm trace, installs a filter that ends nothing. */
  else if (number == 1 && status->line == TRACER)
    status->of_tracer = *text != '0';
  else if (number == 1 && status->line == MODE)
    status->filters = *text != '0';
  else if (number == 1 && status->line == FILTERS)
    {
      const uint32_t all = (uint32_t) read_decimal (&text);
      status->filters = all > status->of_tracer ? all - status->of_tracer : 0;
      return 1;
    }
  return 0;
}

int
process_is_filtered (void)
{
  if (state == UNREAD)
    {
      const uint32_t of_index = table_ready () ? table_header->filters : 0;
      struct status status = { OTHER, 0, 0 };
      long result = read_fields ("/proc/thread-self/status", see_status, &status);
      /* Before Linux 3.17. */
      if (result == ENOENT_NEG)
        result = read_fields ("/proc/self/status", see_status, &status);
      state = (result >= 0 ? status.filters : UINT32_MAX) > of_index ? FILTERED : ALLOWED;
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
