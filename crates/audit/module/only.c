/* Takes becalm's additions back out of the environment, in the memory that the kernel made: glibc
   reads it there again before the first constructor (_dl_start_user of glibc
   sysdeps/x86_64/dl-machine.h and its like).

   `BECALM=...,only:LETTERS,...` says what was added: this word and what follows it; for the letters
   `a` and `t`, the last element of LD_AUDIT and of GLIBC_TUNABLES. A capital letter, also `B` for
   BECALM itself, says that the variable was not set. Without the word, the static TLS of this program alone is
   taken back out of GLIBC_TUNABLES. */
#include "only.h"
#include "process.h"

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
