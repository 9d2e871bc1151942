/* The engine's one clock: CLOCK_MONOTONIC in nanoseconds. Deadlines are absolute
 * points on it, so that nothing is relative to when a loop happened to look. */
#ifndef LP_BASE_CLOCK_H
#define LP_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define CLOCK_NEVER INT64_MAX

static inline int64_t clock_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The same, up to so much behind, for a quarter of the cost. */
enum { CLOCK_COARSE_NS = 10000000 };
static inline int64_t clock_coarse(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Has the time `due` come? Exact, and cheap while it is far away. */
static inline bool clock_passed(int64_t due) {
  return due - clock_coarse() < CLOCK_COARSE_NS && clock_now() >= due;
}

/* The same several times in a moment, which is looked at once: `moment` is 0 when it begins. */
static inline bool clock_passed_in(int64_t *moment, int64_t due) {
  if (due == CLOCK_NEVER) return false;
  if (!*moment) *moment = clock_coarse();
  return due - *moment < CLOCK_COARSE_NS && clock_now() >= due;
}

/* Seconds from a script as nanoseconds; huge and NaN values become CLOCK_NEVER,
 * negative ones 0. */
static inline int64_t clock_from_seconds(double seconds) {
  if (!(seconds < 9e9)) return CLOCK_NEVER;
  return seconds <= 0 ? 0 : (int64_t)(seconds * 1e9);
}

/* The time `seconds` from now. */
static inline int64_t clock_after(double seconds) {
  int64_t span = clock_from_seconds(seconds), now = clock_now();
  return span > CLOCK_NEVER - now ? CLOCK_NEVER : now + span;
}

#endif
