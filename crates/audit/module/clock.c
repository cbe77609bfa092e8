#include "clock.h"

static int (*read_clock) (int, int64_t[2]) STATE = NULL;

int
clock_init (void *clock)
{
  memcpy (&read_clock, &clock, sizeof clock);
  return clock != NULL && clock_now () != 0;
}

uint64_t
clock_now (void)
{
  const int monotonic_coarse = 6;
  int64_t time[2];
  if (read_clock (monotonic_coarse, time) != 0)
    return 0;
  return (uint64_t) time[0] * 1000 + (uint64_t) (uint32_t) ((uint32_t) time[1] / 1000000u) + 1;
}
