/* How the process was started, without a system call: the loader exports
   `__libc_stack_end` (GLIBC_2.2.5 and its like), which leads to the arguments, the
   environment and the auxiliary vector as the kernel laid them out. */
#include "process.h"
#include "dynamic.h"
#include "system.h"

#define AUX_PHDR 3
#define AUX_PHNUM 5
#define AUX_BASE 7
#define AUX_SECURE 23
#define AUX_EXECFN 31

static unsigned char is_on STATE = 0;
static unsigned char is_direct STATE = 0;
static const elf_phdr *headers STATE = NULL;
static unsigned header_count STATE = 0;
static const struct link_map *loader STATE = NULL;
static const char *executable STATE = NULL;
static const char *library_path STATE = NULL;
static const char *log_file STATE = NULL;

static const char *
value_of (const char *variable, const char *name)
{
  while (*name != '\0' && *variable == *name)
    variable++, name++;
  return *name == '\0' && *variable == '=' ? variable + 1 : NULL;
}

static void
read_variable (const char *variable)
{
  const char *value;
  /* As in process_envvars of glibc elf/rtld.c: of two the last counts. */
  if ((value = value_of (variable, "LD_LIBRARY_PATH")) != NULL)
    library_path = *value != '\0' ? value : NULL;
  if ((value = value_of (variable, "BECALM")) != NULL)
    {
      if (text_equal (value, "off"))
        is_on = 0;
      else if (value[0] == 'l' && value[1] == 'o' && value[2] == 'g' && value[3] == ':'
               && value[4] != '\0')
        log_file = value + 4;
    }
}

static void
read_auxiliary (const elf_auxv *aux)
{
  elf_word base = 0;
  for (; aux->type != 0; aux++)
    switch (aux->type)
      {
      case AUX_BASE:
        base = aux->value;
        break;
      case AUX_PHDR:
        headers = (const elf_phdr *) aux->value;
        break;
      case AUX_PHNUM:
        header_count = (unsigned) aux->value;
        break;
      case AUX_SECURE:
        if (aux->value != 0)
          is_on = 0;
        break;
      case AUX_EXECFN:
        executable = (const char *) aux->value;
        break;
      }
  is_direct = base == 0;
}

void
process_init (const struct link_map *map)
{
  /* The vDSO's map and the loader's follow the program's: the chain is that short by now. A
     program may have a variable of that name itself, so it is not asked. */
  void *const *stack_end = NULL;
  map = map->next;
  for (int i = 0; map != NULL && stack_end == NULL && i < 3; i++, map = map->next)
    if ((stack_end = dynamic_symbol (map, "__libc_stack_end")) != NULL)
      loader = map;
  if (stack_end == NULL || *stack_end == NULL)
    return;
  const elf_word *words = *stack_end;
  const char *const *environment = (const char *const *) (words + 1 + words[0] + 1);
  is_on = 1;
  for (; *environment != NULL; environment++)
    read_variable (*environment);
  read_auxiliary ((const elf_auxv *) (environment + 1));
  if (!is_on)
    log_file = NULL;
}

int
process_is_off (void)
{
  return !is_on;
}

const char *
process_loader (void)
{
  return loader != NULL && loader->name != NULL && !is_direct ? loader->name : "";
}

static const char *
file_name (const char *path)
{
  const char *name = path;
  for (; *path != '\0'; path++)
    if (*path == '/')
      name = path + 1;
  return name;
}

int
process_is_loader (const char *needed)
{
  if (loader == NULL)
    return 0;
  const char *soname = dynamic_soname (loader);
  return (soname != NULL && text_equal (needed, soname))
         || (loader->name != NULL && text_equal (needed, file_name (loader->name)));
}

const char *
process_executable (void)
{
  return executable;
}

int
process_is_direct (void)
{
  return is_direct;
}

const char *
process_library_path (void)
{
  return library_path;
}

/* Where the loader was started itself, the headers the kernel names are the loader's. */
const elf_phdr *
process_headers (void)
{
  return is_direct ? NULL : headers;
}

unsigned
process_header_count (void)
{
  return headers == NULL || is_direct ? 0 : header_count;
}

const char *
process_log (void)
{
  return log_file;
}
