/* One line a call, written at once to a file opened for it: nothing stays open in a program
   that may close or count its files. */
#include "log.h"
#include "process.h"
#include "system.h"

/* If the file is a FIFO, do not wait for a reader either. */
#define O_WRONLY_CREAT_APPEND_NONBLOCK_CLOEXEC (01 | 0100 | 02000 | 04000 | 02000000)
#define LINE_SIZE 8192u

static char file[1024] BUFFER = { 0 };
static unsigned char is_logging STATE = 0;
static char line[LINE_SIZE] BUFFER = { 0 };
static size_t used STATE = 0;

void
log_init (void)
{
  const char *path = process.log;
  size_t length = path == NULL ? 0 : strlen (path);
  is_logging = length > 0 && length < sizeof file;
  if (is_logging)
    memcpy (file, path, length + 1);
}

static void
put_byte (char c)
{
  if (used < LINE_SIZE - 1)
    line[used++] = c;
}

/* Writes tab, newline and backslash as \t, \n and \\, so that an entry stays on one line. */
static void
put_text (const char *s)
{
  for (; *s != '\0'; s++)
    {
      char escaped = *s == '\t' ? 't' : *s == '\n' ? 'n' : *s == '\\' ? '\\' : 0;
      if (escaped != 0)
        put_byte ('\\');
      put_byte (escaped != 0 ? escaped : *s);
    }
}

static void
put_decimal (unsigned long value)
{
  char buffer[DIGITS_SIZE];
  put_text (digits_of (value, buffer));
}

static void
put_hexadecimal (unsigned long value)
{
  char digits[24];
  unsigned count = 0;
  do
    digits[count++] = "0123456789abcdef"[value & 15];
  while ((value >>= 4) != 0);
  while (count > 0)
    put_byte (digits[--count]);
}

static void
begin (const char *what, const void *cookie)
{
  used = 0;
  put_decimal ((unsigned long) sys_getpid ());
  put_byte ('\t');
  put_text (what);
  put_byte ('\t');
  put_hexadecimal ((unsigned long) cookie);
  put_byte ('\t');
}

static void
end (void)
{
  put_byte ('\n');
  long fd = sys_open (file, O_WRONLY_CREAT_APPEND_NONBLOCK_CLOEXEC, 0666);
  if (fd < 0)
    return;
  sys_write ((int) fd, line, used);
  sys_close ((int) fd);
}

void
log_object (const void *cookie, long namespace, const char *path)
{
  if (!is_logging)
    return;
  begin ("object", cookie);
  put_decimal ((unsigned long) namespace);
  put_byte ('\t');
  put_text (path);
  end ();
}

void
log_given_up (const char *what)
{
  if (!is_logging)
    return;
  begin ("given-up", NULL);
  put_text (what);
  end ();
}

void
log_bindings (const char *outcome, const char *why, const char *path)
{
  if (!is_logging)
    return;
  begin ("bindings", NULL);
  put_text (outcome);
  put_byte ('\t');
  put_text (why);
  put_byte ('\t');
  put_text (path);
  end ();
}

void
log_bindings_applied (uint32_t bindings, uint32_t relocations)
{
  if (!is_logging)
    return;
  begin ("bindings", NULL);
  put_text ("applied");
  put_byte ('\t');
  put_decimal (bindings);
  put_byte ('\t');
  put_decimal (relocations);
  end ();
}

void
log_stubs (const char *what, const char *outcome, const char *why, uint32_t count)
{
  if (!is_logging)
    return;
  begin (what, NULL);
  put_text (outcome);
  put_byte ('\t');
  if (why != NULL)
    put_text (why);
  else
    put_decimal (count);
  end ();
}

void
log_lookup (const void *cookie, unsigned flag, const char *name, const char *answer)
{
  if (!is_logging)
    return;
  begin ("search", cookie);
  put_decimal (flag);
  put_byte ('\t');
  put_text (name);
  put_byte ('\t');
  if (answer != name)
    put_text (answer);
  end ();
}
