/* The process the module is in: how it was started, with what environment. */
#ifndef BECALM_PROCESS_H
#define BECALM_PROCESS_H

#include "base.h"

/* Looks at the stack the kernel made; MAP is the program's. */
void process_init (const struct link_map *map);

/* True where no question is to be answered: BECALM=off, secure-execution mode, a start
   that could not be made out. */
int process_is_off (void);

/* The loader's path, as the program names it; empty where the loader was started itself, for
   it then goes by the name of another. */
const char *process_loader (void);

/* True for a name that the loader itself is needed by. Each process has one loader:
   _dl_map_object_from_fd of glibc elf/dl-load.c recognizes it by such a name, and maps a second
   one if it is given another path instead. */
int process_is_loader (const char *needed);

/* The path given to execve, NULL where it is not known. */
const char *process_executable (void);

/* True where the loader was started itself, with the program as its argument. */
int process_is_direct (void);

/* LD_LIBRARY_PATH, NULL where it is not set or empty. */
const char *process_library_path (void);

/* The program's own headers, by AT_PHDR and AT_PHNUM. */
const elf_phdr *process_headers (void);
unsigned process_header_count (void);

/* What follows BECALM=log: up to a comma, NULL where nothing is to be logged. */
const char *process_log (void);

/* What follows BECALM=dump: up to a comma, NULL if nothing is to be dumped. */
const char *process_dump (void);

/* BECALM=stop: the process ends when its start is done. */
int process_stops (void);

/* Why the bindings of this start are the loader's: a word for the log; NULL if they need not be. */
const char *process_why_not_bound (void);

/* BECALM=paths, and not BECALM=nopaths. */
int process_wants_paths (void);

/* LD_BIND_NOW. */
int process_bind_now (void);

/* How many audit modules the environment and the program MAP name. */
unsigned process_auditors (const struct link_map *map);

/* True for the vDSO (AT_SYSINFO_EHDR). An emulator (QEMU since 8.2) adds the load address to what is in
   it by itself, so that the loader's is 0. */
int process_is_vdso (const struct link_map *map);

#endif
