/* What an answer rests on, looked at once a batch of questions. */
#ifndef BECALM_CONDITION_H
#define BECALM_CONDITION_H

#include "table.h"

/* True where every guard of a set holds for the answer PATH to NEEDED. */
int conditions_hold (uint32_t set, const char *needed, const char *path);

int condition_holds (uint32_t index);

/* Forgets what may have changed. */
void conditions_forget (void);

/* True for a directory of a package in an indexed store, by the letters of its path. */
int roots_contain (const char *path, size_t length);

/* True where no package has come or gone since the index was made. */
int roots_hold (void);

#endif
