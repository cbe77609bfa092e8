/* Adds the module, its static TLS, the becalm that reads ahead, the folder of ready pages, and the switch by
   which the module takes all of them back out of the environment (audit/only.c). Each addition is the end
   of a value. */
#include "variables.h"

#define STATIC_TLS "glibc.rtld.optional_static_tls="
/* More than the names, the separators, the tunable and its number, and the switches. */
#define ROOM 128u

/* True if a list with commas has the word. */
static int
has_word (const char *list, const char *word)
{
  for (; !is_word (list, word); list++)
    {
      while (*list != '\0' && *list != ',')
        list++;
      if (*list == '\0')
        return 0;
    }
  return 1;
}

/* Records the position of a variable. Returns 0 if it had one. */
static int
record (size_t *position, size_t at)
{
  int is_first = *position == NONE;
  *position = at;
  return is_first;
}

int
variables_read (char **environment, struct variables *variables)
{
  const char *value;
  size_t at = 0;
  variables->audit = variables->tunables = variables->switches = NONE;
  for (; environment[at] != NULL; at++)
    if ((value = value_of (environment[at], "LD_PRELOAD")) != NULL && *value != '\0')
      return 0;
    else if (value_of (environment[at], "LD_AUDIT") != NULL)
      {
        if (!record (&variables->audit, at))
          return 0;
      }
    else if (value_of (environment[at], "GLIBC_TUNABLES") != NULL)
      {
        if (!record (&variables->tunables, at))
          return 0;
      }
    else if ((value = value_of (environment[at], "BECALM")) != NULL)
      if (!record (&variables->switches, at) || has_word (value, "off"))
        return 0;
  variables->count = at;
  return 1;
}

static unsigned
digit (char c)
{
  if (c >= '0' && c <= '9')
    return (unsigned) (c - '0');
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? (unsigned) (c - 'a') + 10 : 16;
}

/* Returns the number at the beginning of an element of a list with colons, as `number` of
   crates/lib/src/index/variables.rs does; 0 for other text. */
static uint64_t
number (const char *text)
{
  unsigned radix = 10;
  uint64_t value = 0;
  if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
    radix = 16, text += 2;
  else if (text[0] == '0')
    radix = 8;
  if (*text == '\0' || *text == ':')
    return 0;
  for (; *text != '\0' && *text != ':'; text++)
    {
      unsigned next = digit (*text);
      if (next >= radix)
        return 0;
      value = value > (UINT64_MAX - next) / radix ? UINT64_MAX : value * radix + next;
    }
  return value;
}

/* Returns the static TLS that a list of tunables gives to libraries: the last value counts. */
static uint64_t
static_tls_of (const char *list)
{
  uint64_t value = 0;
  for (const char *at = list; *at != '\0'; at++)
    {
      const char *digits = at == list || at[-1] == ':' ? text_after (at, STATIC_TLS) : NULL;
      if (digits != NULL)
        value = number (digits);
    }
  return value;
}

static size_t
length_at (char **environment, size_t position)
{
  return position != NONE ? strlen (environment[position]) : 0;
}

size_t
variables_size (char **environment, const struct variables *variables,
                const struct additions *additions)
{
  return length_at (environment, variables->audit) + length_at (environment, variables->tunables)
         + length_at (environment, variables->switches) + strlen (additions->module)
         + strlen (additions->helper) + strlen (additions->pages) + 3 * ROOM;
}

static char *
append (char *text, const char *what)
{
  while (*what != '\0')
    *text++ = *what++;
  *text = '\0';
  return text;
}

/* Begins a variable: the old one with a separator, if its value is not empty, or a new one. */
static char *
begin (char *text, const char *old, const char *name, const char *separator)
{
  if (old == NULL)
    return append (append (text, name), "=");
  text = append (text, old);
  return *value_of (old, name) != '\0' ? append (text, separator) : text;
}

/* Sets a variable in its old place, or in a new one. */
static void
set (char **to, size_t *count, size_t position, char *text)
{
  to[position != NONE ? position : (*count)++] = text;
}

void
variables_add (char **environment, const struct variables *variables,
               const struct additions *additions, char **to, char *text)
{
  size_t count = variables->count;
  const char *old = NULL;
  char letters[4] = { 0 }, *letter = letters, *begins = text, digits[DIGITS_SIZE];
  memcpy (to, environment, count * sizeof *to);

  *letter++ = variables->audit != NONE ? 'a' : 'A';
  old = variables->audit != NONE ? environment[variables->audit] : NULL;
  text = append (begin (text, old, "LD_AUDIT", ":"), additions->module) + 1;
  set (to, &count, variables->audit, begins);

  old = variables->tunables != NONE ? environment[variables->tunables] : NULL;
  if (old == NULL || static_tls_of (value_of (old, "GLIBC_TUNABLES")) < additions->static_tls)
    {
      *letter++ = old != NULL ? 't' : 'T';
      begins = text;
      text = append (begin (text, old, "GLIBC_TUNABLES", ":"), STATIC_TLS);
      text = append (text, digits_of (additions->static_tls, digits)) + 1;
      set (to, &count, variables->tunables, begins);
    }

  *letter = variables->switches != NONE ? 'b' : 'B';
  old = variables->switches != NONE ? environment[variables->switches] : NULL;
  begins = text;
  text = append (append (begin (text, old, "BECALM", ","), "only:"), letters);
  if (additions->helper[0] != '\0')
    text = append (append (text, ",ahead:"), additions->helper);
  if (additions->pages[0] != '\0')
    append (append (text, ",pages:"), additions->pages);
  set (to, &count, variables->switches, begins);
  to[count] = NULL;
}
