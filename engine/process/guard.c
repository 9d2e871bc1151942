/* See guard.h. When the command is gone its children belong to somebody else, so they are
 * known by a word in their environment, their own children by their parents. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "process/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "process/descendants.h"
#include "process/spawn.h"

enum { LOOK_MS = 100 };

static const char MARK[] = "LP_STARTED_BY";

void guard_prepare(void) {
  char mark[64]; /* the time, because numbers of processes come back */
  snprintf(mark, sizeof mark, "%ld.%lld", (long)getpid(), (long long)clock_now());
  setenv(MARK, mark, 1);
}

void guard_start(guard *guard) {
  char pid[24], group[24], file[] = "/proc/self/exe", name[] = "lp", option[] = "--guard";
  char *words[] = {name, option, pid, group, NULL};
  snprintf(pid, sizeof pid, "%ld", (long)getpid());
  snprintf(group, sizeof group, "%ld", (long)getpgrp());
  int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC); /* a reader of ours must not wait for it */
  spawn_request request = {
      .file = file, .argv = words, .stdout_fd = nowhere, .stderr_fd = nowhere, .deaf = true};
  if (nowhere < 0) return;
  pid_t started = 0;
  awaited_begin();
  if (spawn_process(&request, &started, NULL) != LP_OK) started = 0;
  awaited_end(&guard->child, started);
  close(nowhere);
}

void guard_stop(guard *guard) {
  if (!guard->child.pid) return;
  kill(guard->child.pid, SIGKILL);
  while (waitpid(guard->child.pid, NULL, 0) < 0 && errno == EINTR) continue;
  awaited_forget(&guard->child);
  guard->child.pid = 0;
}

/* Returns when the process has ended. If it is not our parent (any more), it has. */
static void wait_for_end(pid_t pid) {
  int fd = (int)syscall(SYS_pidfd_open, pid, 0);
  struct pollfd end = {.fd = fd, .events = POLLIN};
  /* Without a pidfd (valgrind knows none) poll leaves it out, and this looks now and then. */
  while (getppid() == pid) poll(&end, 1, fd < 0 ? LOOK_MS : -1);
  if (fd >= 0) close(fd);
}

int guard_main(const char *pid, const char *group) {
  const char *mark = getenv(MARK);
  if (!mark) return 1;
  char word[96];
  int length = snprintf(word, sizeof word, "%s=%s", MARK, mark);
  if (length < 0 || (size_t)length >= sizeof word) return 1;
  wait_for_end((pid_t)atol(pid));
  descendants_kill_marked(word, (pid_t)atol(group));
  return 0;
}
