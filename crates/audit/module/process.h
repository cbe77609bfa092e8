/* The process that the module is in: how it was started, with what environment, and which filters it has. */
#pragma once

#include "base.h"

extern struct process
{
  /* False if no lookup may be answered: BECALM=off, secure-execution mode, or a start that could
     not be analysed. */
  unsigned char is_on;
  /* True if the loader was started as a command, with the program as its argument. */
  unsigned char is_direct;
  /* LD_BIND_NOW. */
  unsigned char bind_now;
  /* BECALM=stop: the process ends when its start is done. */
  unsigned char stops;
  /* BECALM=paths, and not BECALM=nopaths. */
  unsigned char wants_paths;
  /* The effective user. */
  uint32_t user;
  /* The environment in the kernel's memory, NULL if it was not found. */
  char **environment;
  /* The path given to execve, NULL if it is not known. */
  const char *executable;
  /* LD_LIBRARY_PATH, NULL if it is not set or empty. */
  const char *library_path;
  /* The program's own headers, by AT_PHDR and AT_PHNUM. */
  struct headers headers;
  /* The texts after BECALM=log:, dump: and learn: up to a comma; NULL if there are none. */
  const char *log, *dump, *learner;
  /* The path of the becalm that reads ahead, from BECALM=ahead:PATH. NULL without it, or with BECALM=noahead. */
  const char *helper;
  /* The text after BECALM=trees: two descriptors, a process and its beginning as numbers, and a name, with
     slashes between them (crates/lib/src/trees/begin.rs). NULL without it, or with BECALM=noahead or notrees. */
  const char *trees;
  /* The folder of BECALM=pages:FOLDER. NULL without it, or with BECALM=nopages. */
  const char *pages;
  /* The reason why the bindings of this start are left to the loader, as a word for the log; NULL if they
     are not. */
  const char *why_not_bound;
  /* BECALM=steer:DESCRIPTOR/TOP/HOLES, with which becalm makes pages. */
  const char *steering;
} process __attribute__ ((visibility ("hidden")));

/* Reads the stack that the kernel made; MAP is the program's. */
void process_init (const struct link_map *map);

/* True if the loader's path, as the program names it, is in a list separated by `:`. If the loader was started as a
   command it has another name. */
int process_loader_is_in (const char *list);

/* True for a name by which libraries need the loader itself. Each process has one loader:
   _dl_map_object_from_fd of glibc elf/dl-load.c recognizes it by such a name, and maps a second
   one if it is given another path instead. */
int process_is_loader (const char *needed);

/* Returns the number of audit modules that the environment and the program MAP name. */
unsigned process_auditors (const struct link_map *map);

/* True for the vDSO (AT_SYSINFO_EHDR). An emulator (QEMU since 8.2) adds the load address to its
   contents, so its load address in the link map is 0. */
int process_is_vdso (const struct link_map *map);

/* Returns the program headers of an object whose ELF header is mapped at an address; none if they are not in the same
   page, or if it is no object. */
struct headers headers_at (elf_word address, int is_readable);

/* Returns the program headers of an object. For the program the kernel gives their address; a library has
   them in its first page. If an object was linked for another address, that page may be missing
   or belong to another object, so the kernel checks it before it is read. */
struct headers headers_of (const struct link_map *map, int is_program);

/* BECALM=only: takes what becalm has added to the environment back out of it, so that the program's children get the
   one that becalm was given. Called once, before the first constructor. */
void only_restore (void);

/* The room for a field, with the zero at its end. */
#define FIELD_SIZE 512u

/* Reads the fields that blanks, tabs and line ends separate. SEE gets the number of each in its line, from 0, its
   text, as far as there is room, and its whole length; the rest is not read if it returns 1. Returns 0 if all was
   read, 1 if SEE did not want the rest, else a negative number. */
long read_fields (const char *path, int (*see) (void *context, unsigned number, const char *text, size_t length),
                  void *context);

/* Filters (seccomp) may end the process at a call that its C library does not make. */

/* True if the calling thread has more filters than the process that made the index, or if that is
   not known. Asked before a call that the loader and the C library do not make. */
int process_is_filtered (void);

/* Forgets the answer at the end of a batch of lookups: a program may install a filter later. */
void filter_forget (void);
