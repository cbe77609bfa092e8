/* LD_LIBRARY_PATH, which comes before the run path of an object with DT_RUNPATH. */
#pragma once

#include "base.h"

/* Copies it, while it still is as the loader has read it. */
void library_path_init (void);

/* True if there is a path to search. */
int library_path_is_set (void);

/* False if there is no memory for it, or if it is not known from the options of a loader that
   was started as a command. The log has a line about it. */
int library_path_is_readable (void);

/* Forgets which directories are as they were listed. */
void library_path_forget (void);

/* Searches for a name. MAY_LOOK: an answer follows if no directory has it, so that a directory whose
   names are not known may cost a call. */
enum lookup library_path_ask (const char *name, int may_look, const char **path);
