/* The conditions of answers, checked once a batch of lookups. */
#pragma once

#include "system.h"
#include "table.h"

/* True if every condition of a set holds for the answer PATH to NEEDED. */
int conditions_hold (uint32_t set, const char *needed, const char *path);

int condition_holds (uint32_t index);

int same_times (const struct table_times *times, const struct statx *now);

/* How alike the file at PATH, which may be another name, is to that of a condition. */
enum likeness
{
  OTHER_FILE,
  /* It has the same length, whatever else differs. */
  SAME_SIZE,
  SAME_FILE,
};
enum likeness condition_compare (uint32_t index, const char *path);

enum store_answer
{
  STORE_CHANGED,
  STORE_LACKS_IT,
  STORE_HAS_IT,
};

/* Checks the directories of a set in order, up to the one that has PATH. */
enum store_answer conditions_up_to (uint32_t set, const char *path);

/* True if a directory was recognised by its names alone in this batch: its files may be others. */
extern unsigned char conditions_used_listing __attribute__ ((visibility ("hidden")));

/* Forgets the results that may have changed. */
void conditions_forget (void);

/* True for a directory of a package in an indexed store. Only the path is compared. */
int roots_contain (const char *path, size_t length);

/* True if no package was added or removed since the index was made. */
int roots_hold (void);
