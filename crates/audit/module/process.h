/* The process that the module is in: how it was started, and with what environment. */
#pragma once

#include "base.h"

/* Reads the stack that the kernel made; MAP is the program's. */
void process_init (const struct link_map *map);

/* Returns the environment in the kernel's memory, NULL if it was not found. */
char **process_environment (void);

/* True if no lookup may be answered: BECALM=off, secure-execution mode, or a start that could
   not be analysed. */
int process_is_off (void);

/* Returns the loader's path, as the program names it; empty if the loader was started as a
   command, because it then has another name. */
const char *process_loader (void);

/* True for a name by which libraries need the loader itself. Each process has one loader:
   _dl_map_object_from_fd of glibc elf/dl-load.c recognizes it by such a name, and maps a second
   one if it is given another path instead. */
int process_is_loader (const char *needed);

/* Returns the path given to execve, NULL if it is not known. */
const char *process_executable (void);

/* True if the loader was started as a command, with the program as its argument. */
int process_is_direct (void);

/* Returns LD_LIBRARY_PATH, NULL if it is not set or empty. */
const char *process_library_path (void);

/* Returns the program's own headers, by AT_PHDR and AT_PHNUM. */
const elf_phdr *process_headers (void);
unsigned process_header_count (void);

/* Returns the text after BECALM=log: up to a comma, NULL if there is no log. */
const char *process_log (void);

/* Returns the text after BECALM=dump: up to a comma, NULL if there is no dump. */
const char *process_dump (void);

/* Returns the text after BECALM=learn: up to a comma, NULL if the start is not learned. */
const char *process_learner (void);

/* Returns the becalm that reads ahead, the path after BECALM=ahead: up to a comma; NULL if there is
   none, or BECALM=noahead. */
const char *process_helper (void);

/* Returns the text after BECALM=trees: up to a comma: the numbers of two descriptors, of a process and of
   its beginning, and a name, with slashes between them (crates/lib/src/trees/begin.rs). NULL if there is
   none, or BECALM=noahead or notrees. */
const char *process_trees (void);

/* Returns the folder after BECALM=pages: up to a comma; NULL if there is none, or BECALM=nopages. */
const char *process_pages (void);

/* Returns the descriptor of BECALM=steer:DESCRIPTOR/TOP/HOLES, with which becalm makes pages; negative if
   there is none. */
int process_steers (uint64_t *top, uint32_t *holes);

/* Returns the effective user. */
uint32_t process_user (void);

/* BECALM=stop: the process ends when its start is done. */
int process_stops (void);

/* Returns the reason why the bindings of this start are left to the loader, as a word for the
   log; NULL if there is none. */
const char *process_why_not_bound (void);

/* BECALM=paths, and not BECALM=nopaths. */
int process_wants_paths (void);

/* LD_BIND_NOW. */
int process_bind_now (void);

/* Returns the number of audit modules that the environment and the program MAP name. */
unsigned process_auditors (const struct link_map *map);

/* True for the vDSO (AT_SYSINFO_EHDR). An emulator (QEMU since 8.2) adds the load address to its
   contents, so its load address in the link map is 0. */
int process_is_vdso (const struct link_map *map);
