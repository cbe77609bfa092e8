/* An audit module that serves the memory of a start to the process that made it, and ends the
   start before any code of the program has run.

   glibc calls la_activity with LA_ACT_CONSISTENT at the end of dl_main (elf/rtld.c): everything
   is relocated, no constructor has run. Standard input is a socket. The module writes the objects
   of the base namespace, then answers requests for memory until one asks for no bytes. */
#include "system.h"

#define CHANNEL 0
#define MAX_OBJECTS 4096

/* All numbers on the socket are in the byte order of the machine. */
struct object_message
{
  uint64_t address, dynamic, name_size;
};

struct request
{
  uint64_t address, size;
};

static struct link_map *maps[MAX_OBJECTS];
static unsigned count;

static void
leave (int status)
{
  for (;;)
    sys_exit (status);
}

static void
send_bytes (const void *bytes, size_t size)
{
  const char *next = bytes;
  while (size > 0)
    {
      long written = sys_write (CHANNEL, next, size);
      if (written <= 0)
        leave (3);
      next += written;
      size -= (size_t) written;
    }
}

static void
receive (void *to, size_t size)
{
  char *next = to;
  while (size > 0)
    {
      long got = sys_read (CHANNEL, next, size);
      if (got <= 0)
        leave (4);
      next += got;
      size -= (size_t) got;
    }
}

static void
serve (void)
{
  uint64_t objects = count;
  send_bytes (&objects, sizeof objects);
  for (unsigned i = 0; i < count; i++)
    {
      const struct link_map *map = maps[i];
      struct object_message message
        = { map->addr, (elf_word) map->dynamic, strlen (map->name) };
      send_bytes (&message, sizeof message);
      send_bytes (map->name, message.name_size);
    }
  for (;;)
    {
      struct request request;
      receive (&request, sizeof request);
      if (request.size == 0)
        leave (0);
      send_bytes ((const void *) (elf_word) request.address, request.size);
    }
}

EXPORT unsigned
la_version (unsigned version)
{
  return version;
}

EXPORT unsigned
la_objopen (struct link_map *map, long namespace, elf_word *cookie)
{
  (void) cookie;
  if (namespace == 0 && count < MAX_OBJECTS)
    maps[count++] = map;
  return 0;
}

EXPORT void
la_activity (elf_word *cookie, unsigned flag)
{
  const unsigned consistent = 0;
  (void) cookie;
  if (flag == consistent && count > 1)
    serve ();
}
