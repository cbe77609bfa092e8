/* LD_LIBRARY_PATH, which comes before the run path of an object with DT_RUNPATH. */
#ifndef BECALM_LIBRARY_PATH_H
#define BECALM_LIBRARY_PATH_H

enum library_path_answer
{
  /* No directory of it has the name. */
  LIBRARY_PATH_NOTHING,
  /* The first that has it is known; *path says which file. */
  LIBRARY_PATH_FOUND,
  /* The loader has to search. */
  LIBRARY_PATH_UNKNOWN,
};

/* True where there is a path to search. */
int library_path_is_set (void);

enum library_path_answer library_path_ask (const char *name, const char **path);

#endif
