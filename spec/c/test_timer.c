/* The timer wheel against a model: an array of deadlines, searched in full. */
#include <stdlib.h>

#include "base/clock.h"
#include "runtime/timer.h"
#include "test.h"

enum { TIMERS = 300, TICK = 1 << 20 };

typedef struct subject {
  timer timer; /* first, so that a callback finds its subject */
  bool running;
  bool late; /* was due when started */
  int64_t due;
  int fired;
} subject;

static timer_wheel wheel;
static subject subjects[TIMERS];
static int64_t now, last_due_tick;
static uint64_t seed;
static bool violated; /* fired early, not running, or out of order */
static bool meddle;   /* callbacks start and stop timers */

static uint64_t roll(uint64_t below) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return seed % below;
}

/* Distances of every magnitude from passed to beyond the last level. */
static int64_t some_distance(void) {
  switch (roll(20)) {
    case 0: return CLOCK_NEVER - now;
    case 1: return -(int64_t)roll(5 * TICK);
    case 2: return (int64_t)roll(3);
    default: return (int64_t)roll(UINT64_C(1) << (10 + roll(48)));
  }
}

static void start(subject *one, int64_t due) {
  one->running = true;
  one->late = due <= now;
  one->due = due;
  timer_start(&wheel, &one->timer, due);
}

static void stop(subject *one) {
  one->running = false;
  timer_stop(&wheel, &one->timer);
}

static int64_t tick_after(int64_t due) {
  return due / TICK + (due % TICK > 0);
}

static void meddle_with_some(void) {
  for (int i = 0; i < 3; i++) {
    subject *one = &subjects[roll(TIMERS)];
    if (roll(2))
      stop(one);
    else
      start(one, now + some_distance());
  }
}

static void on_fire(timer *timer_) {
  subject *one = (subject *)timer_;
  if (!one->running || one->due > now || timer_running(&one->timer)) violated = true;
  one->running = false;
  one->fired++;
  if (meddle) {
    meddle_with_some();
    return;
  }
  int64_t tick = one->late ? 0 : tick_after(one->due);
  if (tick < last_due_tick) violated = true;
  last_due_tick = tick;
}

static void set_up(int64_t at) {
  now = at;
  violated = meddle = false;
  last_due_tick = 0;
  timer_wheel_init(&wheel, now);
  memset(subjects, 0, sizeof subjects);
  for (int i = 0; i < TIMERS; i++) timer_init(&subjects[i].timer, on_fire);
}

/* What the model says about the running timers. */
static int model_count(void) {
  int count = 0;
  for (int i = 0; i < TIMERS; i++) count += subjects[i].running;
  return count;
}

static int64_t model_earliest(void) {
  int64_t earliest = CLOCK_NEVER;
  for (int i = 0; i < TIMERS; i++)
    if (subjects[i].running && subjects[i].due < earliest) earliest = subjects[i].due;
  return earliest;
}

static bool agrees(void) {
  if (violated || wheel.count != model_count()) return false;
  for (int i = 0; i < TIMERS; i++)
    if (subjects[i].running != timer_running(&subjects[i].timer)) return false;
  int64_t earliest = model_earliest();
  if (earliest == CLOCK_NEVER) return true;
  return timer_next(&wheel) / TICK <= tick_after(earliest > now ? earliest : now);
}

static void advance(int64_t to) {
  now = to;
  last_due_tick = 0;
  timer_advance(&wheel, now);
}

/* Everything that was due one whole tick ago has fired. */
static bool nothing_overdue(void) {
  for (int i = 0; i < TIMERS; i++)
    if (subjects[i].running && tick_after(subjects[i].due) <= now / TICK) return false;
  return true;
}

static void random_operations(uint64_t with_seed, bool meddling) {
  seed = with_seed;
  set_up((int64_t)roll(UINT64_C(1) << 56));
  meddle = meddling;
  for (int step = 0; step < 3000; step++) {
    subject *one = &subjects[roll(TIMERS)];
    switch (roll(4)) {
      case 0: stop(one); break;
      case 1:
        advance(now + (int64_t)roll(UINT64_C(1) << (roll(12) ? 10 + roll(32) : 57)));
        if (!meddling) CHECK(nothing_overdue());
        break;
      default: start(one, now + some_distance()); break;
    }
    if (!agrees()) {
      fprintf(stderr, "seed %llu, step %d\n", (unsigned long long)with_seed, step);
      CHECK(!"the wheel agrees with the model");
      return;
    }
    if (now > INT64_MAX / 4) return;
  }
}

static void random_operations_agree_with_the_model(void) {
  for (uint64_t i = 1; i <= 60; i++) random_operations(i * 7919, false);
}

static void callbacks_may_start_and_stop_anything(void) {
  for (uint64_t i = 1; i <= 60; i++) random_operations(i * 104729, true);
}

/* A loop that looks exactly when it is told to fires each timer within a tick. */
static void following_timer_next_is_in_time(void) {
  seed = 42;
  set_up(123456789);
  for (int i = 0; i < TIMERS; i++)
    start(&subjects[i], now + 1 + (int64_t)roll(UINT64_C(1) << (5 + roll(45))));
  for (int looks = 0; wheel.count && looks < 100000; looks++) {
    int64_t next = timer_next(&wheel), earliest = model_earliest();
    CHECK(next > now);
    CHECK(next <= (earliest / TICK + 1) * TICK);
    advance(next);
    CHECK(nothing_overdue());
  }
  CHECK(wheel.count == 0 && !violated);
  CHECK(timer_next(&wheel) == CLOCK_NEVER);
}

static void fires_neither_early_nor_twice(void) {
  set_up(0);
  start(&subjects[0], 10 * TICK + 1);
  advance(10 * TICK + 1); /* due, but its tick has not come */
  CHECK(subjects[0].fired == 0);
  CHECK(timer_next(&wheel) == 11 * TICK);
  advance(11 * TICK);
  advance(12 * TICK);
  CHECK(subjects[0].fired == 1 && !timer_running(&subjects[0].timer));
}

static void a_timer_on_the_tick_fires_on_it(void) {
  set_up(0);
  start(&subjects[0], 64 * TICK);
  advance(64 * TICK - 1);
  CHECK(subjects[0].fired == 0);
  advance(64 * TICK);
  CHECK(subjects[0].fired == 1);
}

static void never_is_never(void) {
  set_up(5 * TICK);
  start(&subjects[0], CLOCK_NEVER);
  CHECK(timer_running(&subjects[0].timer) && wheel.count == 1);
  advance(CLOCK_NEVER);
  CHECK(subjects[0].fired == 0);
  stop(&subjects[0]);
  CHECK(timer_next(&wheel) == CLOCK_NEVER);
}

static void stopping_leaves_nothing_to_look_for(void) {
  set_up(0);
  for (int i = 0; i < TIMERS; i++) start(&subjects[i], (int64_t)i * i * i * TICK);
  for (int i = 0; i < TIMERS; i++) stop(&subjects[i]), stop(&subjects[i]);
  CHECK(wheel.count == 0);
  CHECK(timer_next(&wheel) == CLOCK_NEVER);
}

static void restart(timer *timer_) {
  ((subject *)timer_)->fired++;
  timer_start(&wheel, timer_, 0);
}

static void passed_timers_started_within_wait_for_the_next_advance(void) {
  set_up(100 * TICK + 5);
  subjects[0].timer.fn = restart;
  start(&subjects[0], 0);
  CHECK(timer_next(&wheel) <= now);
  start(&subjects[1], now); /* within the tick that has begun: needs not wait for its end */
  timer_advance(&wheel, now);
  CHECK(subjects[1].fired == 1 && subjects[0].fired == 1);
  for (int i = 2; i < 5; i++) {
    timer_advance(&wheel, now);
    CHECK(subjects[0].fired == i);
  }
}

static void free_all(timer *timer_) {
  (void)timer_;
  for (int i = 0; i < 10; i++)
    timer_stop(&wheel, &subjects[i].timer), memset(&subjects[i], 0xee, sizeof subjects[i]);
}

static void a_callback_may_free_its_own_and_all_others(void) {
  set_up(0);
  for (int i = 0; i < 10; i++) {
    subjects[i].timer.fn = free_all;
    start(&subjects[i], TICK);
  }
  timer_advance(&wheel, 2 * TICK);
  CHECK(wheel.count == 0);
  CHECK(timer_next(&wheel) == CLOCK_NEVER);
}

static void advance_within(timer *timer_) {
  ((subject *)timer_)->fired++;
  timer_advance(&wheel, now);
}

static void advancing_within_a_callback_fires_the_rest_once(void) {
  set_up(0);
  for (int i = 0; i < 10; i++) {
    subjects[i].timer.fn = advance_within;
    start(&subjects[i], i * TICK);
  }
  now = 20 * TICK;
  timer_advance(&wheel, now);
  for (int i = 0; i < 10; i++) CHECK(subjects[i].fired == 1);
  CHECK(wheel.count == 0);
}

int main(void) {
  RUN(random_operations_agree_with_the_model);
  RUN(callbacks_may_start_and_stop_anything);
  RUN(following_timer_next_is_in_time);
  RUN(fires_neither_early_nor_twice);
  RUN(a_timer_on_the_tick_fires_on_it);
  RUN(never_is_never);
  RUN(stopping_leaves_nothing_to_look_for);
  RUN(passed_timers_started_within_wait_for_the_next_advance);
  RUN(a_callback_may_free_its_own_and_all_others);
  RUN(advancing_within_a_callback_fires_the_rest_once);
  return TEST_END();
}
