/* Adds the module, its static TLS, the becalm that reads ahead, the folder of ready pages, and the switch by
   which the module takes all of them back out of the environment (audit/module/process.c). Each addition is the end
   of a value. */
#include "variables.h"

#define STATIC_TLS "glibc.rtld.optional_static_tls="
/* More than the names, the separators, the tunable and its number, and the switches. */
#define ROOM 128u

static const char names[VARIABLES][15] = { "LD_AUDIT", "GLIBC_TUNABLES", "BECALM" };
enum { AUDIT, TUNABLES, SWITCHES };

/* True if a list with commas has the word. */
static int
has_word (const char *list, const char *word)
{
  for (; !is_word (list, word); list++)
    {
      list += length_to (list, ',');
      if (*list == '\0')
        return 0;
    }
  return 1;
}

int
variables_read (char **environment, struct variables *variables)
{
  const char *value;
  size_t count = 0;
  for (unsigned i = 0; i < VARIABLES; i++)
    variables->at[i] = NONE;
  for (; environment[count] != NULL; count++)
    {
      if ((value = value_of (environment[count], "LD_PRELOAD")) != NULL && *value != '\0')
        return 0;
      for (unsigned i = 0; i < VARIABLES; i++)
        if ((value = value_of (environment[count], names[i])) != NULL)
          {
            if (variables->at[i] != NONE || (i == SWITCHES && has_word (value, "off")))
              return 0;
            variables->at[i] = count;
          }
    }
  variables->count = count;
  return 1;
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

size_t
variables_size (char **environment, const struct variables *variables,
                const struct additions *additions)
{
  size_t size = strlen (additions->module) + strlen (additions->helper) + strlen (additions->pages) + 3 * ROOM;
  for (unsigned i = 0; i < VARIABLES; i++)
    size += variables->at[i] != NONE ? strlen (environment[variables->at[i]]) : 0;
  return size;
}

static char *
append (char *text, const char *what)
{
  while (*what != '\0')
    *text++ = *what++;
  *text = '\0';
  return text;
}

void
variables_add (char **environment, const struct variables *variables,
               const struct additions *additions, char **to, char *text)
{
  size_t count = variables->count;
  char letters[VARIABLES + 1] = { 0 }, *letter = letters, digits[DIGITS_SIZE];
  memcpy (to, environment, count * sizeof *to);
  for (unsigned i = 0; i < VARIABLES; i++)
    {
      const size_t at = variables->at[i];
      const char *old = at != NONE ? environment[at] : NULL;
      if (i == TUNABLES && old != NULL && static_tls_of (value_of (old, names[i])) >= additions->static_tls)
        continue;
      *letter++ = (old != NULL ? "atb" : "ATB")[i];
      to[old != NULL ? at : count++] = text;
      /* The old one with a separator, if its value is not empty, or a new one. */
      text = old != NULL ? append (text, old) : append (append (text, names[i]), "=");
      if (old != NULL && *value_of (old, names[i]) != '\0')
        text = append (text, i == SWITCHES ? "," : ":");
      if (i == AUDIT)
        text = append (text, additions->module);
      else if (i == TUNABLES)
        text = append (append (text, STATIC_TLS), digits_of (additions->static_tls, digits));
      else
        {
          text = append (append (text, "only:"), letters);
          if (additions->helper[0] != '\0')
            text = append (append (text, ",ahead:"), additions->helper);
          if (additions->pages[0] != '\0')
            text = append (append (text, ",pages:"), additions->pages);
        }
      text++;
    }
  to[count] = NULL;
}
