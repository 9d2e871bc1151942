/* Starting and watching child processes.
 *
 * Children are watched one by one through a pidfd and waited for by pid: SIGCHLD, the
 * signal mask and a host's own children are not ours to touch. Spawning and watching
 * happen on the service thread. */
#ifndef LP_PROCESS_SPAWN_H
#define LP_PROCESS_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/status.h"
#include "net/poller.h"

typedef struct spawn_request {
  const char *file;         /* program; searched on PATH when it has no slash */
  char *const *argv;        /* NULL-terminated */
  char *const *envp;        /* NULL-terminated; NULL: ours */
  const char *folder;       /* working folder; NULL: ours */
  int stdout_fd, stderr_fd; /* duplicated to 1 and 2; -1: ours. Standard input is /dev/null */
  bool deaf;                /* it is ours, and begins with spawn_listen */
} spawn_request;

/* Starts the program in a process group of its own (never a new session), with an empty
 * signal mask, default signal dispositions and no descriptor from 3 up (io.open sets no
 * CLOEXEC, so these are closed in the child, not merely marked). */
lp_status spawn_process(const spawn_request *request, pid_t *pid, fault *fault);
/* In a child that was started `deaf`: a Ctrl-C, or another end of our whole group, that came before
 * the child had left that group was not meant for it. It is forgotten; those to come are not. */
void spawn_listen(void);

typedef struct child child;
/* How a child ended: `signal` 0 and an exit `status`, or a signal. Called once; may free
 * the child. */
enum { CHILD_STATUS_UNKNOWN = -1 }; /* a host that waits for every process was first */
typedef void (*child_fn)(void *owner, pid_t pid, int status, int signal);

/* Watches a child of ours; it is reaped just before `fn` is called. What it left in its
 * process group is killed (SIGKILL) before it is reaped: children of a node end with it.
 * NULL (fault) when no pidfd can be had; then the caller has to kill and wait for it. */
child *child_watch(poller *poller, pid_t pid, child_fn fn, void *owner, fault *fault);
pid_t child_pid(const child *child);
/* Signals the child, or with `group` its whole process group; a child that was reaped
 * is never signalled (its number may be somebody else's). */
void child_signal(child *child, int signal, int group);
/* Stops watching; a child that has ended is reaped, one that still runs is left alone.
 * Accepts NULL. */
void child_free(child *child);

#endif
