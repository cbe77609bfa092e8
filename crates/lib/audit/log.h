/* BECALM=log:FILE: each object and each question, a line each (docs/index-format.md). */
#ifndef BECALM_LOG_H
#define BECALM_LOG_H

#include "base.h"

void log_init (void);

/* COOKIE's address names the object in later lines. */
void log_object (const void *cookie, long namespace, const char *path);

/* What the module leaves to the loader for the whole process. */
void log_given_up (const char *what);

/* What became of the bindings of the table, and why. */
void log_bindings (const char *outcome, const char *why, const char *path);
void log_bindings_applied (uint32_t bindings, uint32_t relocations);

/* What became of the paths of the table: COUNT calls have stubs, or WHY not. */
void log_paths (const char *outcome, const char *why, uint32_t count);

/* FLAG is the LA_SER_ value; ANSWER is what goes back to the loader. */
void log_lookup (const void *cookie, unsigned flag, const char *name, const char *answer);

#endif
