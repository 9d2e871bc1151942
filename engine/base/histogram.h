/* A histogram of times: log-linear, so that an hour and a microsecond are told with the same
 * relative error (at most 1/16), in memory that is bounded by its octaves in use and not by
 * what was recorded. Two can be added. No clock, no lock: one thread's. */
#ifndef LP_BASE_HISTOGRAM_H
#define LP_BASE_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

enum {
  HISTOGRAM_STEPS = 16,  /* buckets of an octave */
  HISTOGRAM_OCTAVES = 40 /* values of 2^43 ns (two hours) and more are as good as that */
};

typedef struct histogram {
  uint64_t count, sum;                  /* sum in the values' unit */
  uint64_t least, greatest;             /* 0 while count is 0 */
  uint64_t lost;                        /* values for which no memory was left; not in count */
  uint64_t *octaves[HISTOGRAM_OCTAVES]; /* HISTOGRAM_STEPS counts each, or NULL */
} histogram;

/* All zeros is an empty one. */
void histogram_fini(histogram *self);
/* Counts `value` as `weight` values (a sample that stands for so many). */
void histogram_record(histogram *self, uint64_t value, uint64_t weight);
/* Adds what `from` holds. */
void histogram_add(histogram *self, const histogram *from);
/* A value that a share of `share` (0 to 1) of all values does not exceed, within 1/16 and never
 * beyond the greatest; 0: there are none. */
uint64_t histogram_quantile(const histogram *self, double share);

#endif
