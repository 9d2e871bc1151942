/* See timer.h. A timer's place follows from its tick and the wheel's: the highest
 * digit (of TIMER_BITS bits) in which the two differ is the level, the timer's digit
 * there the slot. So all timers of a level are earlier than those of the next, a slot
 * is never reached twice before it is emptied, and the wheel may jump over any stretch
 * without timers at once. */
#include "runtime/timer.h"

#include "base/clock.h"

enum {
  TICK_SHIFT = 20,                       /* a tick is 2^20 ns, 1.05 ms */
  WHEEL_BITS = TIMER_BITS * TIMER_LEVELS /* ticks that differ above these are far */
};

/* The first tick at or after `due`: rounded up, so that nothing fires early.
 * CLOCK_NEVER becomes a tick that no clock value reaches. */
static int64_t tick_of_due(int64_t due) {
  if (due <= 0) return 0;
  return (due >> TICK_SHIFT) + ((due & ((1 << TICK_SHIFT) - 1)) != 0);
}

static int digit_of(int64_t tick, int level) {
  return (int)(tick >> (level * TIMER_BITS)) & (TIMER_SLOTS - 1);
}

/* Level for a timer of `tick`, which is later than the wheel's; TIMER_LEVELS: far. */
static int level_of(const timer_wheel *wheel, int64_t tick) {
  int highest = 63 - __builtin_clzll((uint64_t)(tick ^ wheel->tick));
  return highest < WHEEL_BITS ? highest / TIMER_BITS : TIMER_LEVELS;
}

void timer_wheel_init(timer_wheel *wheel, int64_t now) {
  *wheel = (timer_wheel){.now = now, .tick = now >> TICK_SHIFT};
  for (int level = 0; level < TIMER_LEVELS; level++)
    for (int slot = 0; slot < TIMER_SLOTS; slot++) list_init(&wheel->slots[level][slot]);
  list_init(&wheel->fresh);
  list_init(&wheel->far);
  list_init(&wheel->late);
  list_init(&wheel->due);
}

void timer_init(timer *self, void (*fn)(struct timer *timer)) {
  list_init(&self->link);
  self->due = CLOCK_NEVER;
  self->fn = fn;
}

/* Puts a timer that is in no list where it belongs. */
static void timer_place(timer_wheel *wheel, timer *self) {
  int64_t tick = tick_of_due(self->due);
  if (tick <= wheel->tick) {
    list_push(&wheel->due, &self->link);
    return;
  }
  int level = level_of(wheel, tick);
  if (level == TIMER_LEVELS) {
    list_push(&wheel->far, &self->link);
    return;
  }
  int slot = digit_of(tick, level);
  wheel->used[level] |= UINT64_C(1) << slot;
  list_push(&wheel->slots[level][slot], &self->link);
}

void timer_start(timer_wheel *wheel, timer *self, int64_t due) {
  timer_stop(wheel, self);
  self->due = due;
  list_push(due <= wheel->now ? &wheel->late : &wheel->fresh, &self->link);
  wheel->count++;
}

/* Finds those their places that were started meanwhile and are still there. */
static void place_fresh(timer_wheel *wheel) {
  for (list *link; (link = list_pop(&wheel->fresh));)
    timer_place(wheel, list_entry(link, timer, link));
}

/* Clears the bit of a slot that has become empty; `head` may be the head of another list. */
static void slot_emptied(timer_wheel *wheel, const list *head) {
  size_t offset = (size_t)((uintptr_t)head - (uintptr_t)wheel->slots);
  if (offset >= sizeof wheel->slots) return;
  size_t index = offset / sizeof(list);
  wheel->used[index / TIMER_SLOTS] &= ~(UINT64_C(1) << index % TIMER_SLOTS);
}

void timer_cancel(timer_wheel *wheel, timer *self) {
  list *next = self->link.next;
  list_remove(&self->link);
  if (list_empty(next)) slot_emptied(wheel, next);
  wheel->count--;
}

/* The first slot with timers and the tick it begins at; level TIMER_LEVELS is `far`, whose
 * timers are looked at again when the digits of the last level begin anew. */
static int64_t first_slot(const timer_wheel *wheel, int *level, int *slot) {
  for (*level = 0; *level < TIMER_LEVELS; ++*level) {
    if (!wheel->used[*level]) continue;
    *slot = __builtin_ctzll(wheel->used[*level]);
    int shift = *level * TIMER_BITS;
    int64_t block = wheel->tick >> (shift + TIMER_BITS);
    return ((block << TIMER_BITS) + *slot) << shift;
  }
  *slot = 0;
  if (list_empty(&wheel->far)) return INT64_MAX;
  return ((wheel->tick >> WHEEL_BITS) + 1) << WHEEL_BITS;
}

/* Spreads the timers of `head` over lower levels, those whose tick has come into `due`. */
static void timers_cascade(timer_wheel *wheel, list *head) {
  list moved;
  list_init(&moved);
  list_splice(&moved, head);
  for (list *link; (link = list_pop(&moved));) timer_place(wheel, list_entry(link, timer, link));
}

/* Moves the wheel to tick `until` and what is due by then into `due`, in order. */
static void wheel_turn(timer_wheel *wheel, int64_t until) {
  int level, slot;
  for (int64_t tick; (tick = first_slot(wheel, &level, &slot)) <= until;) {
    wheel->tick = tick;
    if (level == TIMER_LEVELS) {
      timers_cascade(wheel, &wheel->far);
      continue;
    }
    wheel->used[level] &= ~(UINT64_C(1) << slot);
    timers_cascade(wheel, &wheel->slots[level][slot]);
  }
  if (until > wheel->tick) wheel->tick = until;
}

void timer_advance(timer_wheel *wheel, int64_t now) {
  list_splice(&wheel->due, &wheel->late);
  place_fresh(wheel);
  if (now > wheel->now) wheel->now = now;
  wheel_turn(wheel, now >> TICK_SHIFT);
  /* A callback may stop any of these, or advance the wheel itself (a loop run from
   * within): `due` is therefore looked at anew each time. */
  for (list *link; (link = list_pop(&wheel->due));) {
    timer *next = list_entry(link, timer, link);
    wheel->count--;
    next->fn(next);
  }
}

int64_t timer_next(timer_wheel *wheel) {
  place_fresh(wheel);
  if (!list_empty(&wheel->late) || !list_empty(&wheel->due)) return wheel->now;
  int level, slot;
  int64_t tick = first_slot(wheel, &level, &slot);
  return tick > CLOCK_NEVER >> TICK_SHIFT ? CLOCK_NEVER : tick << TICK_SHIFT;
}
