/* One line a call, written at once to a file opened for it: nothing stays open in a program
   that may close or count its files. */
#include <stdarg.h>
#include "log.h"
#include "process.h"
#include "system.h"

/* If the file is a FIFO, do not wait for a reader either. */
#define O_WRONLY_CREAT_APPEND_NONBLOCK_CLOEXEC (01 | 0100 | 02000 | 04000 | 02000000)
#define LINE_SIZE 8192u

static char line[LINE_SIZE] BUFFER = { 0 };
static size_t used STATE = 0;

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

void
log_line (const char *what, const void *cookie, ...)
{
  char digits[DIGITS_SIZE];
  if (process.log == NULL)
    return;
  used = 0;
  put_text (digits_of ((unsigned long) sys_getpid (), digits));
  put_byte ('\t');
  put_text (what);
  put_byte ('\t');
  put_text (hexadecimal_of ((unsigned long) cookie, digits));
  va_list fields;
  va_start (fields, cookie);
  for (const char *field; (field = va_arg (fields, const char *)) != NULL;)
    {
      put_byte ('\t');
      put_text (field);
    }
  va_end (fields);
  put_byte ('\n');
  long fd = sys_open (process.log, O_WRONLY_CREAT_APPEND_NONBLOCK_CLOEXEC, 0666);
  if (fd < 0)
    return;
  sys_write ((int) fd, line, used);
  sys_close ((int) fd);
}
