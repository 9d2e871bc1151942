/* Watching children, one pidfd each. See spawn.h.
 *
 * A process number names our child only until it is reaped, so whatever uses the number
 * is done before: the group is killed while its ended leader is still a zombie. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "process/spawn.h"

struct child {
  pid_t pid;
  int pidfd;           /* -1 once the child is reaped */
  poller_watch *watch; /* NULL once the child is reaped */
  child_fn fn;
  void *owner;
};

typedef enum child_state {
  CHILD_RUNS,
  CHILD_ENDED, /* a zombie: its number is still its own */
  CHILD_GONE   /* reaped: by us, or by a host that waits for every process */
} child_state;

static child_state look(const child *watched) {
  siginfo_t info = {0};
  int done;
  if (watched->pidfd < 0) return CHILD_GONE;
  do {
    done = waitid(P_PIDFD, (id_t)watched->pidfd, &info, WEXITED | WNOHANG | WNOWAIT);
  } while (done < 0 && errno == EINTR);
  if (done < 0) return CHILD_GONE;
  return info.si_pid ? CHILD_ENDED : CHILD_RUNS;
}

static void unwatch(child *watched) {
  poller_watch_free(watched->watch);
  watched->watch = NULL;
  if (watched->pidfd >= 0) close(watched->pidfd);
  watched->pidfd = -1;
}

/* Ends what the child has left in its group, then reaps it. False: somebody else did. */
static bool reap(child *watched, siginfo_t *info) {
  int done = -1;
  if (look(watched) == CHILD_ENDED) {
    kill(-watched->pid, SIGKILL);
    do {
      done = waitid(P_PIDFD, (id_t)watched->pidfd, info, WEXITED);
    } while (done < 0 && errno == EINTR);
  }
  unwatch(watched);
  return done == 0;
}

static void on_event(void *owner, unsigned events) {
  (void)events;
  child *watched = owner;
  siginfo_t info = {0};
  if (look(watched) == CHILD_RUNS) return;
  int status = CHILD_STATUS_UNKNOWN, signal = 0;
  if (reap(watched, &info)) {
    bool exited = info.si_code == CLD_EXITED;
    status = exited ? info.si_status : 0;
    signal = exited ? 0 : info.si_status;
  }
  watched->fn(watched->owner, watched->pid, status, signal); /* may free the child */
}

child *child_watch(poller *loop, pid_t pid, child_fn fn, void *owner, fault *why) {
  child *watched = mem_new(sizeof *watched);
  if (!watched) {
    fault_set(why, LP_RESOURCE_EXHAUSTED, "cannot watch process %d: out of memory", (int)pid);
    return NULL;
  }
  *watched = (struct child){.pid = pid, .pidfd = pidfd_open(pid, 0), .fn = fn, .owner = owner};
  int error = errno;
  if (watched->pidfd >= 0) {
    error = ENOMEM;
    watched->watch = poller_watch_new(loop, watched->pidfd, POLLER_READ, on_event, watched);
  }
  if (watched->watch) return watched;
  unwatch(watched);
  mem_free(watched);
  fault_set(why, LP_RESOURCE_EXHAUSTED, "cannot watch process %d: %s", (int)pid, strerror(error));
  return NULL;
}

pid_t child_pid(const child *watched) {
  return watched->pid;
}

void child_signal(child *watched, int signal, int group) {
  if (look(watched) == CHILD_GONE) return;
  if (group)
    kill(-watched->pid, signal);
  else
    pidfd_send_signal(watched->pidfd, signal, NULL, 0);
}

void child_free(child *watched) {
  if (!watched) return;
  siginfo_t info;
  if (look(watched) == CHILD_ENDED) reap(watched, &info);
  unwatch(watched);
  mem_free(watched);
}
