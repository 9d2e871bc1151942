/* The host's thread at work: lp_poll with its budget, lp_wait, the pollable descriptor. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* SIGEV_THREAD_ID */
#endif
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "api/embed.h"
#include "base/clock.h"
#include "net/poller.h"
#include "runtime/interrupt.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

int64_t embed_deadline(double seconds) {
  return seconds < 0 ? CLOCK_NEVER : clock_after(seconds);
}

lp_status embed_check_seconds(double seconds, bool below, const char *what) {
  if (!isnan(seconds) && (below || seconds >= 0)) return LP_OK;
  return embed_fail(LP_INVALID_ARGUMENT, "%s is %g; seconds%s", what, seconds,
                    below ? "" : ", 0 or more");
}

static struct timespec timespec_of(int64_t ns) {
  return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

/* ---- turning ---------------------------------------------------------------- */

void embed_turn(lp_engine *engine, int64_t until) {
  struct loop *outer = interrupt_thread(engine->loop); /* perhaps another engine's */
  engine->depth++;
  engine->loop->awake = false;
  loop_turn(engine->loop, until);
  embed_tell_failed(engine);
  engine->depth--;
  interrupt_thread(outer);
}

bool embed_turn_until(lp_engine *engine, bool (*done)(void *subject), void *subject,
                      int64_t until) {
  while (!done(subject)) {
    if (until != CLOCK_NEVER && clock_now() >= until) return false;
    embed_turn(engine, until);
  }
  return true;
}

/* With signals: one comes when the budget is over (0: none any more), and Lua looks at the clock.
 * The timer is the thread's that made it. */
static void alarm_set(lp_engine *engine, int64_t until) {
  static _Thread_local pid_t thread;
  if (!engine->options.signals) return;
  if (!thread) thread = (pid_t)syscall(SYS_gettid);
  if (engine->has_alarm && engine->alarm_thread != thread) {
    timer_delete(engine->alarm);
    engine->has_alarm = false;
  }
  if (!engine->has_alarm) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGURG};
    event.sigev_notify_thread_id = thread;
    engine->has_alarm = timer_create(CLOCK_MONOTONIC, &event, &engine->alarm) == 0;
    engine->alarm_thread = thread;
  }
  struct itimerspec due = {.it_value = timespec_of(until)};
  if (engine->has_alarm) timer_settime(engine->alarm, TIMER_ABSTIME, &due, NULL);
}

/* ---- the descriptor --------------------------------------------------------- */

/* Until lp_poll is called again the descriptor becomes readable by mail (the mailbox's own),
 * sockets (the poller's mirror) and this: the next timer, or at once when work is left. */
static void descriptor_arm(lp_engine *engine) {
  loop *loop = engine->loop;
  if (engine->poll_fd < 0) return;
  bool idle = !loop_busy(loop) && mailbox_sleep(loop->box);
  int64_t due = idle ? timer_next(&loop->timers) : 1;
  if (due == engine->armed && due != 1) return;
  engine->armed = due;
  struct itimerspec spec = {.it_value = timespec_of(due == CLOCK_NEVER ? 0 : due > 1 ? due : 1)};
  timerfd_settime(engine->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

static void descriptor_disarm(lp_engine *engine) {
  uint64_t count;
  if (engine->poll_fd < 0) return;
  mailbox_awake(engine->loop->box);
  if (read(engine->timer_fd, &count, sizeof count) > 0) engine->armed = 0;
}

static bool descriptor_open(lp_engine *engine) {
  struct epoll_event event = {.events = EPOLLIN};
  engine->poll_fd = epoll_create1(EPOLL_CLOEXEC);
  engine->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (engine->poll_fd < 0 || engine->timer_fd < 0) return false;
  if (epoll_ctl(engine->poll_fd, EPOLL_CTL_ADD, engine->timer_fd, &event) != 0) return false;
  poller_mirror(engine->loop->poller, engine->poll_fd);
  poller_watch_set(engine->loop->wake, 0);
  poller_watch_set(engine->loop->wake, POLLER_READ);
  engine->armed = 0;
  engine->loop->lazy = false; /* who wakes it has to be seen */
  return true;
}

static void descriptor_close(lp_engine *engine) {
  if (engine->loop) poller_mirror(engine->loop->poller, -1);
  if (engine->poll_fd >= 0) close(engine->poll_fd);
  if (engine->timer_fd >= 0) close(engine->timer_fd);
  engine->poll_fd = engine->timer_fd = -1;
}

void embed_poll_fini(lp_engine *engine) {
  descriptor_close(engine);
  if (engine->has_alarm) timer_delete(engine->alarm);
  engine->has_alarm = false;
}

lp_status lp_fd(lp_engine *engine, int *out) {
  lp_status status = embed_check(engine, "lp_fd");
  if (status != LP_OK) return status;
  if (!out) return embed_fail(LP_INVALID_ARGUMENT, "lp_fd: out is NULL");
  if (engine->poll_fd < 0) {
    if (!descriptor_open(engine)) {
      int cause = errno;
      descriptor_close(engine);
      return embed_fail(LP_RESOURCE_EXHAUSTED, "lp_fd: no descriptor: %s", strerror(cause));
    }
    if (engine->depth == 0) descriptor_arm(engine);
  }
  *out = engine->poll_fd;
  return LP_OK;
}

/* ---- polling ---------------------------------------------------------------- */

void embed_bound(lp_engine *engine, int64_t until) {
  bool bounded = until != CLOCK_NEVER;
  if (!bounded && !engine->loop->work_until) return;
  engine->loop->work_until = bounded ? until : 0;
  alarm_set(engine, bounded ? until : 0); /* at last it must not interrupt the host's own calls */
}

/* Turns while there is something, until `until`. */
static void work(lp_engine *engine, int64_t until) {
  loop *loop = engine->loop;
  descriptor_disarm(engine);
  embed_bound(engine, until);
  embed_turn(engine, 0);
  while (loop_busy(loop) && clock_now() < until) embed_turn(engine, 0);
  embed_bound(engine, CLOCK_NEVER);
  descriptor_arm(engine);
}

lp_status lp_poll(lp_engine *engine, double budget) {
  lp_status status = embed_check_wait(engine, "lp_poll");
  if (status == LP_OK) status = embed_check_seconds(budget, false, "lp_poll: budget");
  if (status != LP_OK) return status;
  work(engine, budget > 0 ? embed_deadline(budget) : clock_now());
  return LP_OK;
}

lp_status lp_wait(lp_engine *engine, double timeout) {
  lp_status status = embed_check_wait(engine, "lp_wait");
  if (status == LP_OK) status = embed_check_seconds(timeout, true, "lp_wait: timeout");
  if (status != LP_OK) return status;
  int64_t until = embed_deadline(timeout);
  descriptor_disarm(engine);
  embed_turn(engine, until);
  while (loop_busy(engine->loop) && clock_now() < until) embed_turn(engine, 0);
  descriptor_arm(engine);
  return LP_OK;
}
