/* Finds out how the process was started, without a system call: the loader exports
   `__libc_stack_end` (GLIBC_2.2.5 and others), which leads to the arguments, the environment and
   the auxiliary vector as the kernel wrote them. */
#include "process.h"
#include "dynamic.h"
#include "system.h"

#define AUX_PHDR 3
#define AUX_PHNUM 5
#define AUX_BASE 7
#define AUX_EUID 12
#define AUX_SECURE 23
#define AUX_EXECFN 31
#define AUX_SYSINFO_EHDR 33

static unsigned char is_on STATE = 0;
static unsigned char is_direct STATE = 0;
static const elf_phdr *headers STATE = NULL;
static unsigned header_count STATE = 0;
static const struct link_map *loader STATE = NULL;
static const char *executable STATE = NULL;
static const char *library_path STATE = NULL;
static const char *audit STATE = NULL;
static const char *why_not_bound STATE = NULL;
static unsigned char is_bind_now STATE = 0;
static unsigned char is_stopping STATE = 0;
static elf_word vdso STATE = 0;
static unsigned char has_paths STATE = 0, has_no_paths STATE = 0;
static char **environment STATE = NULL;
#define FILE_SIZE 1024u
static char log_file[FILE_SIZE] BUFFER = { 0 };
static char dump_file[FILE_SIZE] BUFFER = { 0 };
static char learner[FILE_SIZE] BUFFER = { 0 };
static char helper[FILE_SIZE] BUFFER = { 0 };
static char trees[FILE_SIZE] BUFFER = { 0 };
static char pages[FILE_SIZE] BUFFER = { 0 };
static char steering[FILE_SIZE] BUFFER = { 0 };
static uint32_t user STATE = 0;
static unsigned char has_no_ahead STATE = 0, has_no_trees STATE = 0, has_no_pages STATE = 0;

/* True if TEXT has a word in it. */
static int
mentions (const char *text, const char *word)
{
  for (; *text != '\0'; text++)
    if (text_after (text, word) != NULL)
      return 1;
  return 0;
}

/* Variables that change bindings, or the effects of a binding (process_envvars of glibc
   elf/rtld.c). LD_DYNAMIC_WEAK and the two of trace mode count with any value. */
static void
read_binding_variable (const char *variable)
{
  static const char whatever[][28]
      = { "LD_DYNAMIC_WEAK", "LD_TRACE_LOADED_OBJECTS", "LD_TRACE_PRELINKING" };
  static const char set[][16] = { "LD_BIND_NOT", "LD_PROFILE" };
  const char *value;
  for (unsigned i = 0; i < sizeof whatever / sizeof *whatever; i++)
    if (value_of (variable, whatever[i]) != NULL)
      why_not_bound = "environment";
  for (unsigned i = 0; i < sizeof set / sizeof *set; i++)
    if ((value = value_of (variable, set[i])) != NULL && *value != '\0')
      why_not_bound = "environment";
  value = value_of (variable, "LD_DEBUG");
  if (value != NULL && *value != '\0' && !text_equal (value, "statistics"))
    why_not_bound = "environment";
  value = value_of (variable, "GLIBC_TUNABLES");
  if (value != NULL && mentions (value, "plt_rewrite"))
    why_not_bound = "environment";
}

/* Copies the text after WORD up to a comma; TO is unchanged if it is another word, or too long. */
static void
copy_file (char *to, const char *element, const char *word)
{
  size_t length = 0;
  element = text_after (element, word);
  if (element == NULL)
    return;
  while (element[length] != '\0' && element[length] != ',')
    length++;
  if (length == 0 || length >= FILE_SIZE)
    return;
  memcpy (to, element, length);
  to[length] = '\0';
}

/* Parses BECALM, a list with commas. An unknown word is ignored. */
static void
read_switches (const char *list)
{
  for (;;)
    {
      if (is_word (list, "off"))
        is_on = 0;
      else if (is_word (list, "nobind"))
        why_not_bound = "nobind";
      else if (is_word (list, "stop"))
        is_stopping = 1;
      else if (is_word (list, "paths"))
        has_paths = 1;
      else if (is_word (list, "nopaths"))
        has_no_paths = 1;
      else if (is_word (list, "noahead"))
        has_no_ahead = 1;
      else if (is_word (list, "notrees"))
        has_no_trees = 1;
      else if (is_word (list, "nopages"))
        has_no_pages = 1;
      copy_file (log_file, list, "log:");
      copy_file (dump_file, list, "dump:");
      copy_file (learner, list, "learn:");
      copy_file (helper, list, "ahead:");
      copy_file (trees, list, "trees:");
      copy_file (pages, list, "pages:");
      copy_file (steering, list, "steer:");
      while (*list != '\0' && *list != ',')
        list++;
      if (*list == '\0')
        return;
      list++;
    }
}

static void
read_variable (const char *variable)
{
  const char *value;
  /* As in process_envvars of glibc elf/rtld.c: if a variable is set twice, the last one counts. */
  if ((value = value_of (variable, "LD_LIBRARY_PATH")) != NULL)
    library_path = *value != '\0' ? value : NULL;
  else if ((value = value_of (variable, "LD_AUDIT")) != NULL)
    audit = value;
  else if ((value = value_of (variable, "LD_BIND_NOW")) != NULL)
    is_bind_now = *value != '\0';
  else if ((value = value_of (variable, "BECALM")) != NULL)
    read_switches (value);
  else
    read_binding_variable (variable);
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
      case AUX_EUID:
        user = (uint32_t) aux->value;
        break;
      case AUX_SECURE:
        if (aux->value != 0)
          is_on = 0;
        break;
      case AUX_SYSINFO_EHDR:
        vdso = aux->value;
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
  /* The vDSO's map and the loader's follow the program's: the chain has no others yet. A program
     may define a variable of that name itself, so the program is not searched. */
  void *const *stack_end = NULL;
  log_file[0] = dump_file[0] = learner[0] = helper[0] = trees[0] = '\0';
  pages[0] = steering[0] = '\0';
  is_stopping = 0;
  map = map->next;
  for (int i = 0; map != NULL && stack_end == NULL && i < 3; i++, map = map->next)
    if ((stack_end = dynamic_symbol (map, "__libc_stack_end")) != NULL)
      loader = map;
  if (stack_end == NULL || *stack_end == NULL)
    return;
  elf_word *words = *stack_end;
  environment = (char **) (words + 1 + words[0] + 1);
  is_on = 1;
  char **variable = environment;
  for (; *variable != NULL; variable++)
    read_variable (*variable);
  read_auxiliary ((const elf_auxv *) (variable + 1));
  if (!is_on)
    log_file[0] = dump_file[0] = '\0';
}

char **
process_environment (void)
{
  return environment;
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

/* If the loader was started as a command, the kernel's headers are those of the loader. */
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
  return log_file[0] != '\0' ? log_file : NULL;
}

const char *
process_dump (void)
{
  return dump_file[0] != '\0' ? dump_file : NULL;
}

const char *
process_learner (void)
{
  return is_on && learner[0] != '\0' ? learner : NULL;
}

const char *
process_helper (void)
{
  return is_on && !has_no_ahead && helper[0] == '/' ? helper : NULL;
}

const char *
process_trees (void)
{
  return is_on && !has_no_ahead && !has_no_trees && trees[0] != '\0' ? trees : NULL;
}

uint32_t
process_user (void)
{
  return user;
}

const char *
process_pages (void)
{
  return is_on && !has_no_pages && pages[0] == '/' ? pages : NULL;
}

int
process_steers (uint64_t *top, uint32_t *holes)
{
  uint64_t numbers[3] = { 0, 0, 0 };
  unsigned at = 0;
  if (!is_on || steering[0] == '\0')
    return -1;
  for (const char *digit = steering; *digit != '\0' && at < 3; digit++)
    if (*digit == '/')
      at++;
    else
      numbers[at] = 10 * numbers[at] + (uint64_t) (*digit - '0');
  *top = numbers[1];
  *holes = (uint32_t) numbers[2];
  return (int) numbers[0];
}

const char *
process_why_not_bound (void)
{
  return why_not_bound == NULL && is_direct ? "loader-started-itself" : why_not_bound;
}

int
process_stops (void)
{
  return is_on && is_stopping;
}

int
process_wants_paths (void)
{
  return is_on && has_paths && !has_no_paths;
}

int
process_bind_now (void)
{
  return is_bind_now;
}

static unsigned
count_elements (const char *list)
{
  unsigned count = 0;
  for (; list != NULL && *list != '\0'; list++)
    if (*list != ':' && (list[1] == ':' || list[1] == '\0'))
      count++;
  return count;
}

unsigned
process_auditors (const struct link_map *map)
{
  return count_elements (audit) + count_elements (dynamic_audit (map))
         + count_elements (dynamic_depaudit (map));
}

int
process_is_vdso (const struct link_map *map)
{
  const elf_word largest = 0x10000;
  return vdso != 0
         && (map->addr == vdso || (map->addr == 0 && (elf_word) map->dynamic - vdso < largest));
}
