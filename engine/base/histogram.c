/* See histogram.h. Octave 0 holds the values below HISTOGRAM_STEPS one by one; octave k those from
 * STEPS * 2^(k-1) to twice that, in STEPS equal buckets. */
#include "base/histogram.h"

#include <string.h>

#include "base/memory.h"

enum { STEP_BITS = 4 };
_Static_assert(1 << STEP_BITS == HISTOGRAM_STEPS, "");

void histogram_fini(histogram *self) {
  for (int i = 0; i < HISTOGRAM_OCTAVES; i++) mem_free(self->octaves[i]);
  memset(self, 0, sizeof *self);
}

/* Where a value is counted. */
static void place_of(uint64_t value, int *octave, int *step) {
  int top = 63 - __builtin_clzll(value | 1);
  *octave = top < STEP_BITS ? 0 : top - STEP_BITS + 1;
  *step = (int)(value >> (*octave > 0 ? *octave - 1 : 0)) & (HISTOGRAM_STEPS - 1);
  if (*octave < HISTOGRAM_OCTAVES) return;
  *octave = HISTOGRAM_OCTAVES - 1;
  *step = HISTOGRAM_STEPS - 1;
}

/* The middle of a bucket. */
static uint64_t value_of(int octave, int step) {
  if (octave == 0) return (uint64_t)step;
  uint64_t width = (uint64_t)1 << (octave - 1);
  return (uint64_t)(HISTOGRAM_STEPS + step) * width + width / 2;
}

static bool octave_ready(histogram *self, int octave) {
  if (self->octaves[octave]) return true;
  self->octaves[octave] = mem_new(HISTOGRAM_STEPS * sizeof(uint64_t));
  return self->octaves[octave] != NULL;
}

void histogram_record(histogram *self, uint64_t value, uint64_t weight) {
  int octave, step;
  place_of(value, &octave, &step);
  if (!octave_ready(self, octave)) {
    self->lost += weight;
    return;
  }
  if (self->count == 0 || value < self->least) self->least = value;
  if (value > self->greatest) self->greatest = value;
  self->octaves[octave][step] += weight;
  self->count += weight;
  self->sum += value * weight;
}

void histogram_add(histogram *self, const histogram *from) {
  uint64_t added = 0;
  for (int i = 0; i < HISTOGRAM_OCTAVES; i++) {
    if (!from->octaves[i] || !octave_ready(self, i)) continue;
    for (int k = 0; k < HISTOGRAM_STEPS; k++) {
      self->octaves[i][k] += from->octaves[i][k];
      added += from->octaves[i][k];
    }
  }
  if (from->count && (self->count == 0 || from->least < self->least)) self->least = from->least;
  if (from->greatest > self->greatest) self->greatest = from->greatest;
  self->count += added;
  self->sum += from->sum;
  self->lost += from->lost + from->count - added;
}

uint64_t histogram_quantile(const histogram *self, double share) {
  if (self->count == 0) return 0;
  double wanted = share * (double)self->count;
  uint64_t seen = 0;
  for (int i = 0; i < HISTOGRAM_OCTAVES; i++) {
    for (int k = 0; self->octaves[i] && k < HISTOGRAM_STEPS; k++) {
      seen += self->octaves[i][k];
      if (self->octaves[i][k] == 0 || (double)seen < wanted) continue;
      uint64_t value = value_of(i, k);
      if (value > self->greatest) return self->greatest;
      return value < self->least ? self->least : value;
    }
  }
  return self->greatest;
}
