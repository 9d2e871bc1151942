/* What is counted about calls: how many, how many failed, how long they took; per method and per
 * link, by the caller and by the node called, each for itself.
 *
 * Counts are exact. Reading the clock is dear, so times are taken of every call only while a link
 * has fewer than METER_BUSY of them a second; above that of one in METER_EVERY, which then
 * stands for as many as have passed since the last. */
#ifndef LP_RPC_METER_H
#define LP_RPC_METER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/hot.h"

enum {
  METER_BUSY = 10000,        /* calls a second */
  METER_EVERY = 64,          /* of which one is timed beyond that */
  METER_CHECK_NS = 20000000, /* how long a rate is believed */
  METER_SLOTS = 32,
  METER_NAMES = 256, /* methods told apart; what is beyond counts as METER_OTHERS */
  METER_SLACK = 16   /* bytes behind a name, for bytes_copy_beyond */
};
#define METER_OTHERS "(others)"

/* One method. Lives as long as its node; its name serves as that of calls under way. */
typedef struct meter {
  struct meter *next; /* of its slot */
  uint64_t calls, errors;
  histogram *times; /* ns; NULL: none was taken yet */
  bool others;      /* stands for several methods, and has not their name */
  size_t length;
  char name[]; /* terminated, and METER_SLACK bytes more can be read */
} meter;

typedef struct meters {
  meter *slots[METER_SLOTS];
  meter *last; /* looked up, or NULL */
  int count;
} meters;

/* The slow half of meter_get. */
meter *meter_find(meters *meters, const char *name, size_t length);
void meters_fini(meters *meters);

/* The meter of a method, made when it is met first; NULL: memory is out. */
HOT_INLINE meter *meter_get(meters *meters, const char *name, size_t length) {
  meter *last = meters->last;
  if (last && last->length == length && bytes_same(last->name, name, length)) return last;
  return meter_find(meters, name, length);
}

/* Of one direction of a link: which calls are timed, and their times. */
typedef struct link_meter {
  uint64_t calls, errors; /* requests and notifications; of requests those that failed */
  uint64_t bytes;         /* of all that went this way, answers to the other included */
  bool off;               /* nothing is timed */
  histogram *times;
  int64_t check_at;        /* when the rate is looked at again */
  int64_t checked_at;      /* and when it was last */
  uint64_t checked, timed; /* `calls` then; `calls` when one was timed last */
  uint32_t left, every;    /* calls until the next one that is timed */
} link_meter;

/* When a call began. */
typedef struct stopwatch {
  int64_t began;   /* ns; of the clock, or of the turn it began in; 0: it has ended */
  uint32_t weight; /* 0: it is not timed */
  meter *meter;    /* of its method, or NULL */
} stopwatch;

/* The slow half of meter_begin. */
void meter_time(link_meter *link, stopwatch *watch);

/* A call of `meter`'s method (or NULL) begins in a turn that began at `now`. */
HOT_INLINE void meter_begin(link_meter *link, meter *meter, int64_t now, stopwatch *watch) {
  watch->meter = meter;
  watch->began = now;
  watch->weight = 0;
  link->calls++;
  if (meter) meter->calls++;
  if (UNLIKELY(--link->left == 0 || now >= link->check_at) && !link->off) meter_time(link, watch);
}

/* The slow half of meter_end. */
void meter_record(link_meter *link, const stopwatch *watch);

/* It has been answered. */
HOT_INLINE void meter_end(link_meter *link, stopwatch *watch, bool failed) {
  if (watch->began == 0) return;
  if (failed) {
    link->errors++;
    if (watch->meter) watch->meter->errors++;
  }
  if (UNLIKELY(watch->weight)) meter_record(link, watch);
  watch->began = 0;
}

/* Is each call timed? Then its arrival is worth a look at the clock. */
static inline bool meter_times_all(const link_meter *link) {
  return link->every <= 1 && !link->off;
}

void link_meter_fini(link_meter *link);

#endif
