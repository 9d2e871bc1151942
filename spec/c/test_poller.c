/* The poller: what is due is called, what was freed is not, and no descriptor, however
 * unsuited, ends the process. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "net/poller.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "test.h"

static int epoll_ctl_error; /* when set, the kernel refuses to watch anything */

/* Stands before the C library's, for libev as well. */
int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) {
  if (epoll_ctl_error) {
    errno = epoll_ctl_error;
    return -1;
  }
  return (int)syscall(SYS_epoll_ctl, epoll, operation, fd, event);
}

enum { PAIRS = 4 };

typedef struct subject {
  poller_watch *watch;
  int fd, peer;
  unsigned last; /* events reported */
  int calls;
} subject;

static poller *loop;
static subject subjects[PAIRS];

static void on_event(void *owner, unsigned events) {
  subject *one = owner;
  one->calls++;
  one->last = events;
}

static void set_up(poller_fn fn, unsigned events) {
  loop = poller_new();
  for (int i = 0; i < PAIRS; i++) {
    int fds[2];
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds);
    subjects[i] = (subject){.fd = fds[0], .peer = fds[1]};
    subjects[i].watch = poller_watch_new(loop, fds[0], events, fn, &subjects[i]);
    CHECK(subjects[i].watch != NULL);
  }
}

static void tear_down(void) {
  for (int i = 0; i < PAIRS; i++) {
    poller_watch_free(subjects[i].watch);
    close(subjects[i].fd);
    close(subjects[i].peer);
  }
  poller_free(loop);
}

static void poke(int i) {
  CHECK(write(subjects[i].peer, "x", 1) == 1);
}

static void take(int i) {
  char byte;
  CHECK(read(subjects[i].fd, &byte, 1) == 1);
}

static void calls_what_is_due_and_nothing_else(void) {
  set_up(on_event, POLLER_READ);
  poke(1);
  poller_wait(loop, -1);
  CHECK(subjects[1].calls == 1 && subjects[1].last == POLLER_READ);
  CHECK(!subjects[0].calls && !subjects[2].calls && !subjects[3].calls);
  poller_wait(loop, 0); /* still unread: reported again */
  CHECK(subjects[1].calls == 2);
  take(1);
  poller_wait(loop, 0);
  CHECK(subjects[1].calls == 2);
  tear_down();
}

static void interest_can_be_changed(void) {
  set_up(on_event, 0);
  poke(0);
  poller_wait(loop, 0);
  CHECK(subjects[0].calls == 0);
  poller_watch_set(subjects[0].watch, POLLER_WRITE);
  poller_wait(loop, -1);
  CHECK(subjects[0].last == POLLER_WRITE);
  poller_watch_set(subjects[0].watch, POLLER_READ | POLLER_WRITE);
  poller_wait(loop, -1);
  CHECK(subjects[0].last == (POLLER_READ | POLLER_WRITE));
  poller_watch_set(subjects[0].watch, 0);
  int before = subjects[0].calls;
  poller_wait(loop, 0);
  CHECK(subjects[0].calls == before);
  tear_down();
}

static void a_hang_up_is_reported(void) {
  set_up(on_event, POLLER_READ);
  shutdown(subjects[2].peer, SHUT_RDWR);
  poller_wait(loop, -1);
  CHECK(subjects[2].calls == 1 && subjects[2].last & POLLER_READ);
  tear_down();
}

static void waits_as_long_as_asked(void) {
  set_up(on_event, POLLER_READ);
  int64_t begin = clock_now(), until = begin + 20000000;
  int rounds = 0;
  for (int64_t now = begin; now < until; now = clock_now(), rounds++)
    poller_wait(loop, until - now);
  CHECK(rounds <= 3); /* it slept, and did not spin */
  begin = clock_now();
  for (int i = 0; i < 100; i++) poller_wait(loop, 0);
  CHECK(clock_now() - begin < 2000000000);
  tear_down();
}

static void free_all(void *owner, unsigned events) {
  on_event(owner, events);
  for (int i = 0; i < PAIRS; i++) {
    poller_watch_free(subjects[i].watch);
    subjects[i].watch = NULL;
  }
}

static int total_calls(void) {
  int calls = 0;
  for (int i = 0; i < PAIRS; i++) calls += subjects[i].calls;
  return calls;
}

static void a_freed_watch_is_not_called_though_its_event_was_pending(void) {
  set_up(free_all, POLLER_READ);
  for (int i = 0; i < PAIRS; i++) poke(i);
  poller_wait(loop, -1);
  poller_wait(loop, 0);
  CHECK(total_calls() == 1);
  tear_down();
}

static void wait_within(void *owner, unsigned events) {
  on_event(owner, events);
  take((int)((subject *)owner - subjects));
  poller_wait(loop, total_calls() < PAIRS ? -1 : 1000000);
}

static void may_wait_within_a_callback(void) {
  set_up(wait_within, POLLER_READ);
  for (int i = 0; i < PAIRS; i++) poke(i);
  poller_wait(loop, 1000000000);
  CHECK(total_calls() == PAIRS);
  tear_down();
}

static void a_reused_descriptor_is_watched_afresh(void) {
  set_up(on_event, POLLER_READ);
  poller_wait(loop, 0);
  int number = subjects[0].fd;
  poller_watch_free(subjects[0].watch);
  close(subjects[0].fd);
  close(subjects[0].peer);
  int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  CHECK(event == number);
  subjects[0].fd = event;
  subjects[0].watch = poller_watch_new(loop, event, POLLER_READ, on_event, &subjects[0]);
  uint64_t one = 1;
  CHECK(write(event, &one, sizeof one) == sizeof one);
  poller_wait(loop, -1);
  CHECK(subjects[0].calls == 1);
  subjects[0].peer = -1;
  tear_down();
}

static void refuses_what_cannot_be_polled(void) {
  loop = poller_new();
  const char *const paths[] = {"/dev/null", "/proc/self/exe", "/"};
  for (int i = 0; i < 3; i++) {
    int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && !poller_watch_new(loop, fd, POLLER_READ, on_event, subjects));
    close(fd);
  }
  CHECK(!poller_watch_new(loop, -1, POLLER_READ, on_event, subjects));
  CHECK(!poller_watch_new(loop, 999, POLLER_READ, on_event, subjects));
  poller_free(loop);
}

static void a_refusal_by_the_kernel_is_told(void) {
  set_up(on_event, 0);
  poller_watch_set(subjects[3].watch, POLLER_READ);
  epoll_ctl_error = ENOSPC;
  poller_wait(loop, 1000000000);
  epoll_ctl_error = 0;
  CHECK(subjects[3].calls == 1 && subjects[3].last & POLLER_FAILED);
  poller_watch_set(subjects[3].watch, POLLER_READ); /* may be tried again */
  poke(3);
  poller_wait(loop, -1);
  CHECK(subjects[3].calls == 2 && subjects[3].last == POLLER_READ);
  tear_down();
}

static void without_descriptors_there_is_no_poller(void) {
  struct rlimit old, none;
  getrlimit(RLIMIT_NOFILE, &old);
  none = old;
  none.rlim_cur = 0;
  setrlimit(RLIMIT_NOFILE, &none);
  CHECK(!poller_new());
  setrlimit(RLIMIT_NOFILE, &old);
}

static void leaves_signals_alone(void) {
  struct sigaction before, after;
  sigset_t mask;
  sigaction(SIGCHLD, NULL, &before);
  set_up(on_event, POLLER_READ);
  poller_wait(loop, 1000000);
  sigaction(SIGCHLD, NULL, &after);
  CHECK(after.sa_handler == SIG_DFL && before.sa_handler == SIG_DFL);
  sigprocmask(SIG_BLOCK, NULL, &mask);
  for (int number = 1; number < 32; number++) CHECK(!sigismember(&mask, number));
  tear_down();
}

int main(void) {
  RUN(calls_what_is_due_and_nothing_else);
  RUN(interest_can_be_changed);
  RUN(a_hang_up_is_reported);
  RUN(waits_as_long_as_asked);
  RUN(a_freed_watch_is_not_called_though_its_event_was_pending);
  RUN(may_wait_within_a_callback);
  RUN(a_reused_descriptor_is_watched_afresh);
  RUN(refuses_what_cannot_be_polled);
  RUN(a_refusal_by_the_kernel_is_told);
  RUN(without_descriptors_there_is_no_poller);
  RUN(leaves_signals_alone);
  return TEST_END();
}
