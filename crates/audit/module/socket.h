/* Connections to other processes of this user, by abstract names. */
#pragma once

#include "base.h"

#define SOCKET_STREAM 1
#define SOCKET_PACKETS 5

/* Connects at once to the process that listens at NAME, and writes its number to PID. Returns a negative
   number if no process of this user listens there. */
long socket_connect (const char *name, int type, int32_t *pid);

/* Sends bytes, with a descriptor unless it is negative. Returns 1 if all were sent. */
int socket_send (int fd, const void *bytes, size_t length, int descriptor);

/* Waits some milliseconds for LENGTH bytes and two descriptors, which are closed on execve. Returns 1 if
   all have come. */
int socket_receive (int fd, int patience, void *bytes, size_t length, int descriptors[2]);

/* Waits until something can be read, or the other end is closed. */
void socket_wait (int fd, int patience);
