/* Structures of the kernel: include/linux/socket.h, include/uapi/linux/un.h. */
#include "socket.h"
#include "process.h"
#include "system.h"

#ifdef NR_socket

struct address
{
  uint16_t family;
  char name[108];
};

struct vector
{
  void *base;
  size_t length;
};

struct message
{
  void *name;
  uint32_t name_length;
  struct vector *vectors;
  size_t vector_count;
  void *control;
  size_t control_length;
  uint32_t flags;
};

/* A message of control with SCM_RIGHTS. */
struct control
{
  size_t length;
  int32_t level, type;
  int32_t descriptors[2];
};
# define CONTROL_LENGTH(count) (offsetof (struct control, descriptors) + (count) * sizeof (int32_t))

/* struct ucred: the process that has called listen. */
struct credentials
{
  int32_t pid;
  uint32_t user, group;
};

struct poll
{
  int32_t fd;
  int16_t wanted, found;
};

long
socket_connect (const char *name, int type, int32_t *pid)
{
  struct address address = { .family = 1 };
  const size_t length = name != NULL ? strlen (name) : 0;
  if (length == 0 || length >= sizeof address.name || process_is_filtered ())
    return -1;
  memcpy (address.name + 1, name, length);
  struct credentials peer = { 0, 0, 0 };
  uint32_t size = sizeof peer;
  const long socket_level = 1, peer_credentials = 17;
  long fd = system_call (NR_socket, 1, type | CLOSE_ON_EXEC | NONBLOCK, 0, 0, 0);
  if (fd >= 0
      && (system_call (NR_connect, fd, (long) &address, (long) (3 + length), 0, 0) != 0
          || system_call (NR_getsockopt, fd, socket_level, peer_credentials, (long) &peer, (long) &size) != 0
          || size != sizeof peer || peer.user != (uint32_t) system_call (NR_geteuid, 0, 0, 0, 0, 0)))
    {
      sys_close ((int) fd);
      return -1;
    }
  *pid = peer.pid;
  return fd;
}

int
socket_send (int fd, const void *bytes, size_t length, int descriptor)
{
  struct vector vector = { (void *) (uintptr_t) bytes, length };
  struct control control = { CONTROL_LENGTH (1), 1, 1, { descriptor, 0 } };
  struct message message = { NULL, 0, &vector, 1, NULL, 0, 0 };
  if (descriptor >= 0)
    {
      message.control = &control;
      message.control_length = CONTROL_LENGTH (1);
    }
  const long no_signal = 0x4000;
  return system_call (NR_sendmsg, fd, (long) &message, no_signal, 0, 0) == (long) length;
}

void
socket_wait (int fd, int patience)
{
  const int16_t in = 1;
  struct poll poll = { fd, in, 0 };
  const long time[2] = { patience / 1000, patience % 1000 * 1000000L };
  system_call (NR_ppoll, (long) &poll, 1, (long) time, 0, 0);
}

int
socket_receive (int fd, int patience, void *bytes, size_t length, int descriptors[2])
{
  struct vector vector = { bytes, length };
  struct control control = { 0, 0, 0, { -1, -1 } };
  struct message message = { NULL, 0, &vector, 1, &control, CONTROL_LENGTH (2), 0 };
  const long close_on_exec = 0x40000000;
  socket_wait (fd, patience);
  long received = system_call (NR_recvmsg, fd, (long) &message, close_on_exec, 0, 0);
  if (received < 0)
    return 0;
  size_t count = control.length == CONTROL_LENGTH (2) ? 2 : control.length == CONTROL_LENGTH (1) ? 1 : 0;
  if (received == (long) length && count == 2)
    {
      memcpy (descriptors, control.descriptors, sizeof control.descriptors);
      return 1;
    }
  while (count > 0)
    sys_close (control.descriptors[--count]);
  return 0;
}

#endif
