/* Finds out how the process was started, without a system call: the loader exports
   `__libc_stack_end` (GLIBC_2.2.5 and others), which leads to the arguments, the environment and
   the auxiliary vector as the kernel wrote them. */
#include "process.h"
#include "dynamic.h"
#include "system.h"
#include "table.h"

struct process process STATE = { 0 };
static const struct link_map *loader STATE = NULL;
static const char *audit STATE = NULL;
static elf_word vdso STATE = 0;

/* The words of BECALM: of word N, `switches` has bit N. */
static const char words[][8]
    = { "off", "nobind", "stop", "paths", "nopaths", "noahead", "notrees", "nopages" };
enum { OFF = 1, NO_BIND = 2, STOP = 4, PATHS = 8, NO_PATHS = 16, NO_AHEAD = 32, NO_TREES = 64, NO_PAGES = 128 };
static unsigned switches STATE = 0;

/* Those with a text, which is kept. */
static const char prefixes[][7] = { "log:", "dump:", "learn:", "ahead:", "trees:", "pages:", "steer:" };
enum { LOG, DUMP, LEARNER, HELPER, TREES, PAGES, STEERING, TEXTS };
#define TEXT_SIZE 1024u
static char texts[TEXTS][TEXT_SIZE] BUFFER = { { 0 } };

/* True if TEXT has a word in it. */
static int
mentions (const char *text, const char *word)
{
  for (; *text != '\0'; text++)
    if (text_after (text, word) != NULL)
      return 1;
  return 0;
}

/* True for variables that change bindings, or the effects of a binding (process_envvars of glibc
   elf/rtld.c). LD_DYNAMIC_WEAK and the two of trace mode count with any value. */
static int
changes_bindings (const char *variable)
{
  const char *value;
  return value_of (variable, "LD_DYNAMIC_WEAK") != NULL
         || value_of (variable, "LD_TRACE_LOADED_OBJECTS") != NULL
         || value_of (variable, "LD_TRACE_PRELINKING") != NULL
         || ((value = value_of (variable, "LD_BIND_NOT")) != NULL && *value != '\0')
         || ((value = value_of (variable, "LD_PROFILE")) != NULL && *value != '\0')
         || ((value = value_of (variable, "LD_DEBUG")) != NULL && *value != '\0'
             && !text_equal (value, "statistics"))
         || ((value = value_of (variable, "GLIBC_TUNABLES")) != NULL && mentions (value, "plt_rewrite"));
}

/* Copies the text after WORD up to a comma; TO is unchanged if it is another word, or too long. */
static void
copy_text (char *to, const char *element, const char *word)
{
  element = text_after (element, word);
  if (element == NULL)
    return;
  const size_t length = length_to (element, ',');
  if (length == 0 || length >= TEXT_SIZE)
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
      for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        switches |= is_word (list, words[i]) ? 1u << i : 0;
      for (unsigned i = 0; i < TEXTS; i++)
        copy_text (texts[i], list, prefixes[i]);
      list += length_to (list, ',');
      if (*list++ == '\0')
        break;
    }
  if (switches & NO_BIND)
    process.why_not_bound = "nobind";
}

static void
read_variable (const char *variable)
{
  const char *value;
  /* As in process_envvars of glibc elf/rtld.c: if a variable is set twice, the last one counts. */
  if ((value = value_of (variable, "LD_LIBRARY_PATH")) != NULL)
    process.library_path = *value != '\0' ? value : NULL;
  else if ((value = value_of (variable, "LD_AUDIT")) != NULL)
    audit = value;
  else if ((value = value_of (variable, "LD_BIND_NOW")) != NULL)
    process.bind_now = *value != '\0';
  else if ((value = value_of (variable, "BECALM")) != NULL)
    read_switches (value);
  else if (changes_bindings (variable))
    process.why_not_bound = "environment";
}

/* If the loader was started as a command, the kernel's headers are those of the loader. */
static void
read_auxiliary (const elf_auxv *aux)
{
  process.is_direct = auxiliary (aux, AUX_BASE) == 0;
  if (!process.is_direct)
    process.headers = (struct headers) { (const elf_phdr *) auxiliary (aux, AUX_PHDR),
                                         (unsigned) auxiliary (aux, AUX_PHNUM) };
  else if (process.why_not_bound == NULL)
    process.why_not_bound = "loader-started-itself";
  process.user = (uint32_t) auxiliary (aux, AUX_EUID);
  process.executable = (const char *) auxiliary (aux, AUX_EXECFN);
  vdso = auxiliary (aux, AUX_SYSINFO_EHDR);
  process.is_on = !(switches & OFF) && auxiliary (aux, AUX_SECURE) == 0;
}

static const char *
text_of (unsigned which, unsigned not_with)
{
  return texts[which][0] != '\0' && !(switches & not_with) ? texts[which] : NULL;
}

/* The requests to this module for a start whose lookups may be answered. */
static void
apply_switches (void)
{
  process.log = text_of (LOG, 0);
  process.dump = text_of (DUMP, 0);
  process.learner = text_of (LEARNER, 0);
  process.helper = texts[HELPER][0] == '/' ? text_of (HELPER, NO_AHEAD) : NULL;
  process.trees = text_of (TREES, NO_AHEAD | NO_TREES);
  process.pages = texts[PAGES][0] == '/' ? text_of (PAGES, NO_PAGES) : NULL;
  process.stops = (switches & STOP) != 0;
  process.wants_paths = (switches & (PATHS | NO_PATHS)) == PATHS;
  process.steering = text_of (STEERING, 0);
}

void
process_init (const struct link_map *map)
{
  /* The vDSO's map and the loader's follow the program's: the chain has no others yet. A program
     may define a variable of that name itself, so the program is not searched. */
  void *const *stack_end = NULL;
  for (unsigned i = 0; i < TEXTS; i++)
    texts[i][0] = '\0';
  map = map->next;
  for (int i = 0; map != NULL && stack_end == NULL && i < 3; i++, map = map->next)
    if ((stack_end = dynamic_symbol (map, "__libc_stack_end")) != NULL)
      loader = map;
  if (stack_end == NULL || *stack_end == NULL)
    return;
  elf_word *stack = *stack_end;
  process.environment = (char **) (stack + 1 + stack[0] + 1);
  char **variable = process.environment;
  for (; *variable != NULL; variable++)
    read_variable (*variable);
  read_auxiliary ((const elf_auxv *) (variable + 1));
  if (process.is_on)
    apply_switches ();
}

int
process_loader_is_in (const char *list)
{
  const char *name = loader != NULL && loader->name != NULL && !process.is_direct ? loader->name : "";
  const size_t length = strlen (name);
  for (size_t size; *list != '\0' && length > 0; list += size + (list[size] == ':'))
    if ((size = length_to (list, ':')) == length && memcmp (list, name, length) == 0)
      return 1;
  return 0;
}

int
process_is_loader (const char *needed)
{
  if (loader == NULL)
    return 0;
  const char *soname = dynamic_string (loader, DT_SONAME);
  return (soname != NULL && text_equal (needed, soname))
         || (loader->name != NULL && text_equal (needed, file_name (loader->name)));
}

struct headers
headers_at (elf_word address, int is_readable)
{
  static const unsigned char magic[5] = { 0x7f, 'E', 'L', 'F', ELF_CLASS };
  const elf_word page = 4096;
  const elf_ehdr *header = (const elf_ehdr *) address;
  struct statx ignored;
  /* As a path: the kernel returns EFAULT only if it cannot read a string there, because the page is unreadable, or
     behind the end of a file. */
  if (address == 0 || address % page != 0
      || (!is_readable && sys_stat_at (-1, (const char *) header, 0, &ignored) == EFAULT_NEG)
      || memcmp (header->ident, magic, sizeof magic) != 0 || header->phentsize != sizeof (elf_phdr)
      || header->phoff > page || header->phoff + (elf_word) header->phnum * sizeof (elf_phdr) > page)
    return (struct headers) { NULL, 0 };
  return (struct headers) { (const elf_phdr *) (address + header->phoff), header->phnum };
}

struct headers
headers_of (const struct link_map *map, int is_program)
{
  if (is_program)
    return process.headers;
  const struct headers headers = headers_at (map->addr, 0);
  const elf_phdr *dynamic = header_of (headers, PT_DYNAMIC);
  /* Those of that object. */
  const int are_own = dynamic != NULL && (const elf_dyn *) (map->addr + dynamic->vaddr) == map->dynamic;
  return are_own ? headers : (struct headers) { NULL, 0 };
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
  return count_elements (audit) + count_elements (dynamic_string (map, DT_AUDIT))
         + count_elements (dynamic_string (map, DT_DEPAUDIT));
}

int
process_is_vdso (const struct link_map *map)
{
  const elf_word largest = 0x10000;
  return vdso != 0
         && (map->addr == vdso || (map->addr == 0 && (elf_word) map->dynamic - vdso < largest));
}

long
read_fields (const char *path, int (*see) (void *context, unsigned number, const char *text, size_t length),
             void *context)
{
  char bytes[1024], text[FIELD_SIZE];
  unsigned number = 0;
  size_t length = 0;
  int is_enough = 0;
  long count, fd = sys_open (path, CLOSE_ON_EXEC, 0);
  if (fd < 0)
    return fd;
  while (!is_enough && (count = sys_read ((int) fd, bytes, sizeof bytes)) > 0)
    for (long i = 0; i < count && !is_enough; i++)
      {
        if (bytes[i] != ' ' && bytes[i] != '\t' && bytes[i] != '\n')
          {
            if (length < FIELD_SIZE - 1)
              text[length] = bytes[i];
            length++;
            continue;
          }
        text[length < FIELD_SIZE ? length : FIELD_SIZE - 1] = '\0';
        is_enough = see (context, number, text, length);
        number = bytes[i] == '\n' ? 0 : number + 1;
        length = 0;
      }
  sys_close ((int) fd);
  return is_enough ? 1 : count;
}

/* Counts the filters of the calling thread, with the calls of the loader. The kernel says how many
   there are since Linux 5.9; before, they count as one (proc_pid_status of Linux fs/proc/array.c).
   crates/host/src/filters.rs counts those of the process that makes the index. */
static enum { UNREAD, ALLOWED, FILTERED } filter_state STATE = UNREAD;

/* The lines with these names, and their numbers. */
static const char status_names[][17] = { "TracerPid:", "Seccomp:", "Seccomp_filters:" };
enum { TRACER, MODE, FILTERS, STATUS_NAMES };
struct status
{
  unsigned line;
  uint32_t numbers[STATUS_NAMES];
};

static int
see_status (void *context, unsigned number, const char *text, size_t length)
{
  struct status *status = context;
  (void) length;
  if (number == 0)
    for (status->line = 0; status->line < STATUS_NAMES && !text_equal (text, status_names[status->line]);)
      status->line++;
  if (number != 1 || status->line == STATUS_NAMES)
    return 0;
  status->numbers[status->line] = (uint32_t) read_decimal (&text);
  return status->line == FILTERS;
}

int
process_is_filtered (void)
{
  if (filter_state == UNREAD)
    {
      const uint32_t of_index = table_ready () ? table_header->filters : 0;
      struct status status = { 0, { [FILTERS] = UINT32_MAX } };
      long result = read_fields ("/proc/thread-self/status", see_status, &status);
      /* Before Linux 3.17. */
      if (result == ENOENT_NEG)
        result = read_fields ("/proc/self/status", see_status, &status);
      uint32_t filters = status.numbers[FILTERS];
      if (filters == UINT32_MAX)
        filters = status.numbers[MODE] != 0;
      /* A tracer, such as becalm trace, installs a filter that ends nothing. */
      else if (filters > 0)
        filters -= status.numbers[TRACER] != 0;
      filter_state = (result >= 0 ? filters : UINT32_MAX) > of_index ? FILTERED : ALLOWED;
    }
  return filter_state == FILTERED;
}

/* A filter cannot be removed. */
void
filter_forget (void)
{
  if (filter_state == ALLOWED)
    filter_state = UNREAD;
}

/* Takes becalm's additions back out of the environment, in the memory that the kernel made: glibc
   reads it there again before the first constructor (_dl_start_user of glibc
   sysdeps/x86_64/dl-machine.h and its like).

   `BECALM=...,only:LETTERS,...` says what was added: this word and what follows it; for the letters
   `a` and `t`, the last element of LD_AUDIT and of GLIBC_TUNABLES. A capital letter, also `B` for
   BECALM itself, says that the variable was not set. Without the word, the static TLS of this program alone is
   taken back out of GLIBC_TUNABLES. */

/* Returns the last word of the list that begins with `only:`, NULL if there is none. */
static char *
find_word (char *list)
{
  char *found = NULL;
  for (char *at = list; *at != '\0'; at++)
    if ((at == list || at[-1] == ',') && text_after (at, "only:") != NULL)
      found = at;
  return found;
}

/* Shortens a list by its last element. */
static void
cut_last (char *value)
{
  char *end = value;
  for (char *at = value; *at != '\0'; at++)
    if (*at == ':')
      end = at;
  *end = '\0';
}

/* Takes the static TLS of this program alone out of a list of tunables: the last element, behind that of programs
   that it starts. */
static void
drop_own (char *list)
{
  static const char name[] = "glibc.rtld.optional_static_tls=";
  const char *before = NULL, *last = list;
  for (const char *at = list; *at != '\0'; at++)
    if (*at == ':')
      {
        before = last;
        last = at + 1;
      }
  const char *bytes = text_after (last, name);
  if (before != NULL && text_after (before, name) != NULL && bytes != NULL && text_after (bytes, "0x") != NULL)
    cut_last (list);
}

/* Restores one variable. Returns 0 if it was not set. LETTERS are copied, for BECALM has them. */
static int
restore (char *variable, const char *letters)
{
  static const struct { char name[15], added, set; } variables[]
      = { { "LD_AUDIT", 'a', 'A' }, { "GLIBC_TUNABLES", 't', 'T' } };
  char *value = (char *) value_of (variable, "BECALM");
  if (value != NULL)
    {
      char *word = find_word (value);
      if (word != NULL)
        *(word > value ? word - 1 : word) = '\0';
      return !has_byte (letters, 'B');
    }
  for (unsigned i = 0; i < sizeof variables / sizeof *variables; i++)
    if ((value = (char *) value_of (variable, variables[i].name)) != NULL)
      {
        if (has_byte (letters, variables[i].added))
          cut_last (value);
        return !has_byte (letters, variables[i].set);
      }
  return 1;
}

/* The environment is read again: of several modules the first one takes out what becalm added, and the others find
   no word. */
void
only_restore (void)
{
  char letters[8] = { 0 };
  char **environment = process.environment, *tunables = NULL;
  for (char **at = environment; at != NULL && *at != NULL; at++)
    {
      char *value = (char *) value_of (*at, "GLIBC_TUNABLES");
      tunables = value != NULL ? value : tunables;
      value = (char *) value_of (*at, "BECALM");
      const char *word = value != NULL ? find_word (value) : NULL;
      if (word == NULL)
        continue;
      word += sizeof "only:" - 1;
      for (size_t i = 0; i + 1 < sizeof letters && word[i] != '\0' && word[i] != ','; i++)
        letters[i] = word[i];
    }
  if (letters[0] == '\0')
    {
      if (tunables != NULL)
        drop_own (tunables);
      return;
    }
  char **to = environment;
  for (char **from = environment; *from != NULL; from++)
    if (restore (*from, letters))
      *to++ = *from;
  while (*to != NULL)
    *to++ = NULL;
}
