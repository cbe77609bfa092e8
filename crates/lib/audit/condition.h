/* The conditions of answers, checked once a batch of lookups. */
#ifndef BECALM_CONDITION_H
#define BECALM_CONDITION_H

#include "table.h"

/* True if every condition of a set holds for the answer PATH to NEEDED. */
int conditions_hold (uint32_t set, const char *needed, const char *path);

int condition_holds (uint32_t index);

/* Forgets the results that may have changed. */
void conditions_forget (void);

/* True for a directory of a package in an indexed store. Only the path is compared. */
int roots_contain (const char *path, size_t length);

/* True if no package was added or removed since the index was made. */
int roots_hold (void);

#endif
