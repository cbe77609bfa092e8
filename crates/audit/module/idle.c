/* Decides before anything else whether the index can be of use to a start. If not, la_version returns 0
   and the loader unloads the module, which costs less than to keep it.

   The loader calls no function of the module with the program before la_version, but it passes the
   environment to DT_INIT (call_init of glibc elf/dl-init.c), and the auxiliary vector follows that. On
   machines without DT_INIT (RISC-V) no start is idle. */
#include "idle.h"
#include "dynamic.h"
#include "hash.h"
#include "system.h"

#define PT_PHDR 6u

#define PROGRAMS_BITS 14u
#define PROGRAMS_PROBES 4u

/* A Bloom filter of the file names of the programs, which becalm_core::index::embed writes. It is in the first
   page, which the loader has read. */
__attribute__ ((section (".programs"), visibility ("hidden"), aligned (8)))
unsigned char becalm_programs[(1u << PROGRAMS_BITS) / 8] = { 0 };

/* Not STATE, which is zero when whole.c looks at it. A flipped bit makes the module decline. */
#define FIRST __attribute__ ((section (".data.first")))
unsigned char program_is_unknown FIRST = 0, start_is_idle FIRST = 0;

struct start
{
  const char *path;
  struct headers headers;
  /* The program, as far as its headers tell. */
  struct link_map map;
};

/* Reads the auxiliary vector. Returns 0 if the program cannot be found by it. */
static int
read_start (const elf_auxv *aux, struct start *start)
{
  const elf_word headers = auxiliary (aux, AUX_PHDR);
  start->path = (const char *) auxiliary (aux, AUX_EXECFN);
  start->headers = (struct headers) { (const elf_phdr *) headers, (unsigned) auxiliary (aux, AUX_PHNUM) };
  if (headers == 0)
    return 0;
  const elf_phdr *own = header_of (start->headers, PT_PHDR), *dynamic = header_of (start->headers, PT_DYNAMIC);
  if (auxiliary (aux, AUX_BASE) == 0 || start->path == NULL || own == NULL || dynamic == NULL)
    return 0;
  start->map.addr = headers - own->vaddr;
  start->map.dynamic = (const elf_dyn *) (start->map.addr + dynamic->vaddr);
  return 1;
}

/* True if the program itself calls dlopen, or if its symbols do not end at their strings in one segment,
   as linkers place them. */
static int
opens_libraries (const struct start *start)
{
  const elf_sym *symbols = dynamic_table (&start->map, DT_SYMTAB);
  const char *strings = dynamic_table (&start->map, DT_STRTAB);
  const elf_word addr = start->map.addr, strings_size = dynamic_value (&start->map, DT_STRSZ);
  const elf_phdr *segment = segment_of (start->headers, (elf_word) symbols - addr, 1);
  if (segment == NULL || segment != segment_of (start->headers, (elf_word) strings - addr, 1))
    return 1;
  for (const elf_sym *symbol = symbols; (const char *) (symbol + 1) <= strings; symbol++)
    {
      const char *name = strings + symbol->name;
      if (symbol->section == 0 && symbol->name < strings_size
          && (text_equal (name, "dlopen") || text_equal (name, "dlmopen")))
        return 1;
    }
  return (const char *) symbols > strings;
}

/* True if the index may have a program at this path. */
static int
may_have (const char *path)
{
  const char *name = file_name (path);
  uint64_t hash = hash_bytes (0, name, strlen (name));
  for (unsigned i = 0; i < PROGRAMS_PROBES; i++, hash >>= PROGRAMS_BITS)
    {
      const uint64_t bit = hash & ((1u << PROGRAMS_BITS) - 1);
      if (!(becalm_programs[bit / 8] >> bit % 8 & 1))
        return 0;
    }
  return 1;
}

/* True if the program may have another file name than the path given to execve: that is a link, or a
   script, whose path the kernel passes to the interpreter too. */
static int
may_have_other_name (const char *path, char **arguments)
{
  char byte;
  for (arguments += *arguments != NULL; *arguments != NULL; arguments++)
    if (text_equal (*arguments, path))
      return 1;
  return sys_readlink (path, &byte, sizeof byte) != EINVAL_NEG;
}

/* True if the index may have the program by the kernel's link, or if that cannot be read. It takes more
   time than all the rest. */
static int
may_have_link (void)
{
  char path[1024];
  const long length = sys_readlink ("/proc/self/exe", path, sizeof path);
  if (length <= 0 || length == sizeof path)
    return 1;
  path[length] = '\0';
  return may_have (path);
}

/* DT_INIT (module.flags). */
__attribute__ ((visibility ("hidden"))) void
becalm_init (int argument_count, char **arguments, char **environment)
{
  struct start start = { 0 };
  (void) argument_count;
  if (environment == NULL)
    return;
  char **variable = environment;
  int is_used = 0;
  /* They may give the module work in any program. */
  for (; *variable != NULL; variable++)
    is_used |= value_of (*variable, "BECALM") != NULL || value_of (*variable, "LD_LIBRARY_PATH") != NULL;
  if (!read_start ((const elf_auxv *) (variable + 1), &start))
    return;
  program_is_unknown = !may_have (start.path)
               && !(may_have_other_name (start.path, arguments) && may_have_link ());
  start_is_idle = program_is_unknown && !is_used && dynamic_run_path (&start.map).value == NULL
            && !opens_libraries (&start);
}
