/* Starts for which the index can do nothing. */
#pragma once

/* True if the index has no program with the file name of this one. */
int program_is_unknown (void);

/* True if the program is not in the index, and reaches nothing that is: without a run path,
   LD_LIBRARY_PATH, calls of dlopen and switches (BECALM). */
int start_is_idle (void);
