/* Starting a program with posix_spawn (a vfork underneath: its cost and safety do not
 * depend on how many threads and descriptors we have). See spawn.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "process/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_FREE = 3 }; /* the lowest descriptor that is none of the standard ones */

/* What one spawn needs and gives back. `held` are copies of descriptors which would
 * be overwritten in the child before they are duplicated (a swap of 1 and 2), or -1. */
typedef struct spawn_plan {
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
  int held[2];
} spawn_plan;

/* What is sent to whole groups, to end them. */
static void group_signals(sigset_t *signals) {
  sigemptyset(signals);
  sigaddset(signals, SIGINT);
  sigaddset(signals, SIGTERM);
  sigaddset(signals, SIGHUP);
  sigaddset(signals, SIGQUIT);
}

static int set_attributes(posix_spawnattr_t *attributes, bool deaf) {
  sigset_t mask, all;
  sigemptyset(&mask);
  if (deaf) group_signals(&mask);
  sigfillset(&all);
  posix_spawnattr_setpgroup(attributes, 0);
  posix_spawnattr_setsigmask(attributes, &mask);
  posix_spawnattr_setsigdefault(attributes, &all);
  return posix_spawnattr_setflags(
      attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

/* The descriptor to duplicate to `target` (1 or 2): `fd`, or a copy held above the
 * standard ones; -1 (errno) when it is none. */
static int hold(spawn_plan *plan, int fd, int target) {
  if (fd >= FIRST_FREE || fd == target) return fd;
  int copy = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE);
  plan->held[target - 1] = copy;
  return copy;
}

static int add_stream(spawn_plan *plan, int fd, int target) {
  /* The child must not get its first open file as a standard stream, so where ours is
   * closed it writes to nowhere. */
  if (fd < 0 && fcntl(target, F_GETFD) < 0)
    return posix_spawn_file_actions_addopen(&plan->actions, target, "/dev/null", O_WRONLY, 0);
  int source = hold(plan, fd < 0 ? target : fd, target);
  if (source < 0) return errno;
  return posix_spawn_file_actions_adddup2(&plan->actions, source, target);
}

static int add_actions(spawn_plan *plan, const spawn_request *request) {
  int error = add_stream(plan, request->stdout_fd, STDOUT_FILENO);
  if (!error) error = add_stream(plan, request->stderr_fd, STDERR_FILENO);
  if (!error)
    error =
        posix_spawn_file_actions_addopen(&plan->actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (!error) error = posix_spawn_file_actions_addclosefrom_np(&plan->actions, FIRST_FREE);
  if (!error && request->folder)
    error = posix_spawn_file_actions_addchdir_np(&plan->actions, request->folder);
  return error;
}

static int plan_init(spawn_plan *plan, const spawn_request *request) {
  plan->held[0] = plan->held[1] = -1;
  int error = posix_spawnattr_init(&plan->attributes);
  if (error) return error;
  error = posix_spawn_file_actions_init(&plan->actions);
  if (error) {
    posix_spawnattr_destroy(&plan->attributes);
    return error;
  }
  error = set_attributes(&plan->attributes, request->deaf);
  return error ? error : add_actions(plan, request);
}

static void plan_fini(spawn_plan *plan) {
  for (int i = 0; i < 2; i++)
    if (plan->held[i] >= 0) close(plan->held[i]);
  posix_spawn_file_actions_destroy(&plan->actions);
  posix_spawnattr_destroy(&plan->attributes);
}

static lp_status spawn_code(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR: return LP_NOT_FOUND;
    case EACCES:
    case EPERM: return LP_PERMISSION_DENIED;
    case EAGAIN:
    case ENOMEM:
    case EMFILE:
    case ENFILE: return LP_RESOURCE_EXHAUSTED;
    default: return LP_FAILED_PRECONDITION;
  }
}

/* 0, or why `folder` cannot be entered. */
static int folder_error(const char *folder) {
  int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  int error = faccessat(fd, ".", X_OK, AT_EACCESS) ? errno : 0;
  close(fd);
  return error;
}

/* posix_spawn does not tell which of its steps failed; a working folder that cannot be
 * entered is the one a user has to know about. */
static lp_status spawn_fault(const spawn_request *request, int error, fault *why) {
  const char *folder = request->folder;
  int folder_fails = folder ? folder_error(folder) : 0;
  if (folder_fails)
    return fault_set(why, spawn_code(folder_fails), "cannot start %s in %s: %s", request->file,
                     folder, strerror(folder_fails));
  return fault_set(why, spawn_code(error), "cannot start %s: %s", request->file, strerror(error));
}

lp_status spawn_process(const spawn_request *request, pid_t *pid, fault *why) {
  spawn_plan plan;
  int error = plan_init(&plan, request);
  if (!error)
    error = posix_spawnp(pid, request->file, &plan.actions, &plan.attributes, request->argv,
                         request->envp ? request->envp : environ);
  lp_status status = error ? spawn_fault(request, error, why) : LP_OK;
  plan_fini(&plan);
  return status;
}

void spawn_listen(void) {
  sigset_t signals;
  group_signals(&signals);
  for (int number = 1; number < NSIG; number++) {
    if (sigismember(&signals, number) != 1) continue;
    struct sigaction before, ignore = {.sa_handler = SIG_IGN};
    sigaction(number, &ignore, &before); /* drops one that waits */
    sigaction(number, &before, NULL);
  }
  pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}
