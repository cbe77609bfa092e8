/* The conditions of answers, checked once a batch of lookups. */
#pragma once

#include "table.h"

/* Makes the kernel read the path in the last SIZE bytes before END of the module's file; returns 0 if the file ends
   before them. The path is that of the first root. */
int file_end_is_there (const char *end, size_t size);

/* True if every condition of a set holds for the answer PATH to NEEDED. */
int conditions_hold (uint32_t set, const char *needed, const char *path);

int condition_holds (uint32_t index);

/* True if PATH, another name than that of a condition, leads to its file. */
int condition_is_of (uint32_t index, const char *path);

/* True if the file at PATH has the length of that of a condition, whatever else differs. */
int condition_same_size (uint32_t index, const char *path);

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
