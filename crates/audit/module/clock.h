/* The time since the machine started, without a system call. */
#pragma once

#include "base.h"

/* CLOCK is clock_gettime of the vDSO. Returns 0 if it does not work. */
int clock_init (void *clock);

/* Returns the milliseconds since the machine started; 0 if they are not known. The clock has a
   granularity of up to 10. */
uint64_t clock_now (void);
