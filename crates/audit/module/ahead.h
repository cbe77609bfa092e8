/* A start that waits for the disk, in a session that reads ahead (BECALM=ahead:BECALM). */
#pragma once

#include "base.h"

/* Looks whether the start waits for the disk, and then starts a becalm that reads ahead: called for
   each object of the start. */
void ahead_look (void);

/* Starts becalm, which makes the pages of this program for its next start (pages.c). */
void ahead_make_pages (void);
