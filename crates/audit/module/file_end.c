/* If the file is shorter than its program headers say, touching the missing part would end the
   process. The kernel returns an error instead, so it is given a path that ends where the file
   does: that of the first root, whose answer is needed in any case. */
#include "file_end.h"

static struct statx first_root STATE = { 0 };
static long first_root_result STATE = 0;
static const char *first_root_path STATE = NULL;

int
file_end_is_there (const char *end, size_t size)
{
  first_root_result = sys_stat (end, &first_root);
  /* Padded with slashes at the front, the path ends where the file does: then the kernel has
     read it all. */
  size_t length = 0;
  while (first_root_result != EFAULT_NEG && length < size && end[length] != '\0')
    length++;
  if (length != size - 1)
    return 0;
  while (end[0] == '/' && end[1] == '/')
    end++;
  first_root_path = end;
  return 1;
}

int
file_end_recall (const char *path, struct statx *found, long *result)
{
  if (first_root_path == NULL || !text_equal (path, first_root_path))
    return 0;
  *found = first_root;
  *result = first_root_result;
  return 1;
}

void
file_end_forget (void)
{
  first_root_path = NULL;
}
