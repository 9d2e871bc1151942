/* Deadlines: a hierarchical timer wheel, pure (no clock, no descriptors). The loop that
 * owns it feeds it the time and asks when to look again. Adding and cancelling are O(1);
 * most deadlines are cancelled. A timer never fires early, and at most one tick
 * (2^20 ns, about 1 ms) late on a loop that looks in time. */
#ifndef LP_RUNTIME_TIMER_H
#define LP_RUNTIME_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

typedef struct timer {
  list link;                       /* in a slot of the wheel, or alone */
  int64_t due;                     /* absolute, ns of clock_now */
  void (*fn)(struct timer *timer); /* may free, cancel or start any timer */
} timer;

enum { TIMER_BITS = 6, TIMER_SLOTS = 1 << TIMER_BITS, TIMER_LEVELS = 6 };

typedef struct timer_wheel {
  int64_t now;                 /* of the last advance */
  int64_t tick;                /* ticks passed since clock 0 at `now` */
  uint64_t used[TIMER_LEVELS]; /* bit per slot that holds a timer */
  list slots[TIMER_LEVELS][TIMER_SLOTS];
  list fresh; /* started since the last advance; most are cancelled before the next */
  list far;   /* beyond the last level, CLOCK_NEVER included */
  list late;  /* started when it was due: fires at the next advance */
  list due;   /* being fired */
  int count;  /* timers started and not yet fired or cancelled */
} timer_wheel;

void timer_wheel_init(timer_wheel *wheel, int64_t now);

/* Must be called once before any other use of `timer`. */
void timer_init(timer *timer, void (*fn)(struct timer *timer));
/* (Re)starts it for the absolute time `due`. */
void timer_start(timer_wheel *wheel, timer *timer, int64_t due);
static inline bool timer_running(const timer *timer) {
  return !list_empty(&timer->link);
}
/* Harmless when it is not running. */
void timer_cancel(timer_wheel *wheel, timer *timer); /* its rare half */
static inline void timer_stop(timer_wheel *wheel, timer *timer) {
  if (timer_running(timer)) timer_cancel(wheel, timer);
}

/* Fires what is due at `now`: first timers that were due when started, as they were
 * started, then the others in order of their ticks. Timers started from within for a time
 * that has passed fire at the next advance. A callback may advance the wheel. */
void timer_advance(timer_wheel *wheel, int64_t now);
/* When to call timer_advance next: a time not later than the earliest timer needs
 * (it may be earlier), CLOCK_NEVER when there is none. */
int64_t timer_next(timer_wheel *wheel);

#endif
