/* Starts for which the index can do nothing. */
#pragma once

/* True if the index has no program with the file name of this one. */
extern unsigned char program_is_unknown __attribute__ ((visibility ("hidden")));

/* True if the program is not in the index, and reaches nothing that is: without a run path,
   LD_LIBRARY_PATH, calls of dlopen and switches (BECALM). */
extern unsigned char start_is_idle __attribute__ ((visibility ("hidden")));
