/* Filters (seccomp) that may end the process at a call that its C library does not make. */
#pragma once

/* True if the calling thread has more filters than the process that made the index, or if that is
   not known. Asked before a call that the loader and the C library do not make. */
int process_is_filtered (void);

/* Forgets the answer at the end of a batch of lookups: a program may install a filter later. */
void filter_forget (void);
