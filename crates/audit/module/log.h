/* BECALM=log:FILE: each object and each lookup, a line each (docs/index-format.md). */
#pragma once

#include "base.h"

void log_init (void);

/* COOKIE's address names the object in later lines. */
void log_object (const void *cookie, long namespace, const char *path);

/* Logs what the module leaves to the loader for the whole process. */
void log_given_up (const char *what);

/* Logs the outcome of the table's bindings, and the reason. */
void log_bindings (const char *outcome, const char *why, const char *path);
void log_bindings_applied (uint32_t bindings, uint32_t relocations);

/* Logs the outcome of answers by stubs: COUNT calls have stubs, or the reason WHY not. */
void log_stubs (const char *what, const char *outcome, const char *why, uint32_t count);

/* Logs a lookup. FLAG is the LA_SER_ value; ANSWER is returned to the loader. */
void log_lookup (const void *cookie, unsigned flag, const char *name, const char *answer);
