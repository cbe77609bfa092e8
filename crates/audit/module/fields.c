#include "fields.h"
#include "system.h"

long
read_fields (const char *path, int (*see) (void *context, unsigned number, const char *text, size_t length),
             void *context)
{
  char bytes[1024], text[FIELD_SIZE];
  unsigned number = 0;
  size_t length = 0;
  long count, fd = sys_open (path, CLOSE_ON_EXEC, 0);
  if (fd < 0)
    return fd;
  while ((count = sys_read ((int) fd, bytes, sizeof bytes)) > 0)
    for (long i = 0; i < count; i++)
      {
        if (bytes[i] != ' ' && bytes[i] != '\t' && bytes[i] != '\n')
          {
            if (length < FIELD_SIZE - 1)
              text[length] = bytes[i];
            length++;
            continue;
          }
        text[length < FIELD_SIZE ? length : FIELD_SIZE - 1] = '\0';
        if (see (context, number, text, length))
          {
            sys_close ((int) fd);
            return 1;
          }
        number = bytes[i] == '\n' ? 0 : number + 1;
        length = 0;
      }
  sys_close ((int) fd);
  return count;
}
