/* See poller.h. One private libev loop on epoll. What of libev could end the process is
 * kept from happening: no async or signal watchers (they abort without descriptors), and
 * only descriptors that epoll takes. What remains is libev's own few arrays, which abort
 * when malloc has nothing left. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "net/poller.h"

#include <ev.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

struct poller {
  struct ev_loop *loop; /* owned; holds one reference of ours, so that it waits without watches */
  int watches;
  int mirror; /* epoll descriptor that watches the same; -1: none */
};

struct poller_watch {
  ev_io io;
  struct ev_loop *loop;
  poller *poller;
  poller_fn fn;
  void *owner;
};

/* Ends the wait by having been due; there is nothing else to do. */
static void on_timeout(struct ev_loop *loop, ev_timer *timer, int events) {
  (void)loop, (void)timer, (void)events;
}

poller *poller_new(void) {
  poller *self = mem_new(sizeof *self);
  if (!self) return NULL;
  self->loop =
      ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV | EVFLAG_NOSIGMASK | (unsigned)EVFLAG_NOTIMERFD);
  if (!self->loop) {
    mem_free(self);
    return NULL;
  }
  ev_ref(self->loop);
  self->mirror = -1;
  return self;
}

void poller_free(poller *self) {
  if (!self) return;
  ev_unref(self->loop);
  ev_loop_destroy(self->loop);
  mem_free(self);
}

static bool epoll_takes(int fd) {
  int probe = epoll_create1(EPOLL_CLOEXEC);
  if (probe < 0) return false;
  struct epoll_event event = {0};
  bool taken = !epoll_ctl(probe, EPOLL_CTL_ADD, fd, &event);
  close(probe);
  return taken;
}

/* libev takes what epoll refuses as always ready, which would spin. Of character devices
 * some can be polled (terminals) and some not (/dev/null): those are tried. */
static bool can_be_polled(int fd) {
  struct stat status;
  if (fstat(fd, &status)) return false;
  if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) || S_ISBLK(status.st_mode)) return false;
  return !S_ISCHR(status.st_mode) || epoll_takes(fd);
}

static int events_to_ev(unsigned events) {
  return (events & POLLER_READ ? EV_READ : 0) | (events & POLLER_WRITE ? EV_WRITE : 0);
}

static void on_io(struct ev_loop *loop, ev_io *io, int events) {
  (void)loop;
  poller_watch *watch = io->data;
  unsigned came = (events & EV_READ ? POLLER_READ : 0U) | (events & EV_WRITE ? POLLER_WRITE : 0U) |
                  (events & EV_ERROR ? POLLER_FAILED : 0U);
  watch->fn(watch->owner, came); /* may have freed the watch */
}

int poller_watches(const poller *self) {
  return self->watches;
}

void poller_mirror(poller *self, int epoll_fd) {
  self->mirror = epoll_fd;
}

/* What the mirror watches of a descriptor, from `before` to `wanted`. */
static void mirror_set(const poller *self, int fd, int before, int wanted) {
  if (self->mirror < 0 || before == wanted) return;
  struct epoll_event event = {.events = (wanted & EV_READ ? EPOLLIN : 0u) |
                                        (wanted & EV_WRITE ? EPOLLOUT : 0u)};
  if (!wanted)
    epoll_ctl(self->mirror, EPOLL_CTL_DEL, fd, &event);
  else if (epoll_ctl(self->mirror, EPOLL_CTL_ADD, fd, &event) != 0)
    epoll_ctl(self->mirror, EPOLL_CTL_MOD, fd, &event);
}

poller_watch *poller_watch_new(poller *self, int fd, unsigned events, poller_fn fn, void *owner) {
  if (!can_be_polled(fd)) return NULL;
  poller_watch *watch = mem_new(sizeof *watch);
  if (!watch) return NULL;
  watch->loop = self->loop;
  watch->poller = self;
  self->watches++;
  watch->fn = fn;
  watch->owner = owner;
  ev_io_init(&watch->io, on_io, fd, events_to_ev(events));
  watch->io.data = watch;
  if (events) ev_io_start(watch->loop, &watch->io);
  mirror_set(self, fd, 0, events_to_ev(events));
  return watch;
}

void poller_watch_set(poller_watch *watch, unsigned events) {
  int wanted = events_to_ev(events);
  int current = ev_is_active(&watch->io) ? watch->io.events & (EV_READ | EV_WRITE) : 0;
  if (wanted == current) return;
  mirror_set(watch->poller, watch->io.fd, current, wanted);
  int fd = watch->io.fd;
  ev_io_stop(watch->loop, &watch->io);
  ev_io_set(&watch->io, fd, wanted);
  if (wanted) ev_io_start(watch->loop, &watch->io);
}

void poller_watch_free(poller_watch *watch) {
  if (!watch) return;
  watch->poller->watches--;
  mirror_set(watch->poller, watch->io.fd, watch->io.events & (EV_READ | EV_WRITE), 0);
  ev_io_stop(watch->loop, &watch->io); /* takes back an event that is pending, too */
  mem_free(watch);
}

/* The timer is the call's own: waits may be nested, and libev calls what was pending for the
 * outer one before the inner one sleeps. */
static void wait_at_most(poller *self, int64_t timeout_ns) {
  ev_timer timeout;
  ev_now_update(self->loop); /* libev counts from the last time it looked at the clock */
  ev_timer_init(&timeout, on_timeout, (double)timeout_ns * 1e-9, 0.);
  ev_timer_start(self->loop, &timeout);
  ev_run(self->loop, EVRUN_ONCE);
  ev_timer_stop(self->loop, &timeout);
}

void poller_wait(poller *self, int64_t timeout_ns) {
  if (timeout_ns == 0 || ev_pending_count(self->loop))
    ev_run(self->loop, EVRUN_NOWAIT);
  else if (timeout_ns < 0)
    ev_run(self->loop, EVRUN_ONCE);
  else
    wait_at_most(self, timeout_ns);
}
