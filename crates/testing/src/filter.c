/* filter CALLS PROGRAM ...: starts a program under a filter that ends it at these system calls.
 * perf_event_open is refused with EPERM, as in a container. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define CALL(name) { #name, __NR_##name }
static const struct { const char *name; int number; } calls[] = {
  CALL(statfs), CALL(getdents64), CALL(userfaultfd), CALL(socket), CALL(perf_event_open),
#if __SIZEOF_POINTER__ == 8 /* On others the C library itself uses it. */
  CALL(statx),
#endif
#ifdef __NR_readlink
  CALL(readlinkat),
#endif
};
int main(int n, char **a) {
  struct sock_filter lines[32] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)) };
  struct sock_fprog all = { 1, lines };
  for (char *call = strtok(a[1], ","); call != 0; call = strtok(0, ","))
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
      if (strcmp(call, calls[i].name) == 0) {
        lines[all.len++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ, calls[i].number, 0, 1);
        lines[all.len++] = (struct sock_filter) BPF_STMT(BPF_RET,
          calls[i].number == __NR_perf_event_open ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_KILL_PROCESS);
      }
  lines[all.len++] = (struct sock_filter) BPF_STMT(BPF_RET, SECCOMP_RET_ALLOW);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) != 0) return 99;
  execvp(a[2], a + 2);
  return 98;
}
