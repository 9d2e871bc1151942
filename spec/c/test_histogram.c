/* base/histogram: quantiles within their error, weights, sums of two, bounded memory. */
#include "base/histogram.h"

#include <math.h>
#include <string.h>

#include "test.h"

static histogram one, two;

static void clear(void) {
  histogram_fini(&one);
  histogram_fini(&two);
}

static bool near(uint64_t got, double wanted) {
  return fabs((double)got - wanted) <= wanted / 16 + 1;
}

static void an_empty_one_has_no_quantiles(void) {
  clear();
  CHECK(histogram_quantile(&one, 0.5) == 0);
  CHECK(histogram_quantile(&one, 1) == 0);
}

static void small_values_are_exact(void) {
  clear();
  for (uint64_t i = 0; i < 16; i++) histogram_record(&one, i, 1);
  CHECK(histogram_quantile(&one, 0.5) == 7);
  CHECK(histogram_quantile(&one, 1) == 15);
  CHECK(one.least == 0 && one.greatest == 15 && one.count == 16 && one.sum == 120);
}

static void quantiles_of_a_line(void) {
  clear();
  for (uint64_t i = 1; i <= 100000; i++) histogram_record(&one, i * 1000, 1);
  CHECK(near(histogram_quantile(&one, 0.5), 50e6));
  CHECK(near(histogram_quantile(&one, 0.9), 90e6));
  CHECK(near(histogram_quantile(&one, 0.999), 99.9e6));
  CHECK(histogram_quantile(&one, 1) <= 100000000);
  CHECK(near(histogram_quantile(&one, 0), 1000));
}

static void every_octave_is_told_within_a_sixteenth(void) {
  for (int bit = 0; bit < 43; bit++) {
    for (int part = 0; part < 5; part++) {
      uint64_t value = ((uint64_t)1 << bit) + ((uint64_t)part << bit) / 5;
      clear();
      histogram_record(&one, value, 1);
      histogram_record(&one, value * 4, 1); /* so that it is not cut to the greatest */
      CHECK(near(histogram_quantile(&one, 0.5), (double)value));
    }
  }
}

static void weights_stand_for_so_many(void) {
  clear();
  histogram_record(&one, 100, 63);
  histogram_record(&one, 100000, 1);
  CHECK(one.count == 64 && one.sum == 6300 + 100000);
  CHECK(near(histogram_quantile(&one, 0.98), 100));
  CHECK(near(histogram_quantile(&one, 0.99), 100000));
}

static void two_added_are_as_one(void) {
  clear();
  histogram all = {0};
  for (uint64_t i = 1; i < 5000; i++) {
    histogram_record(i % 3 ? &one : &two, i * i, i);
    histogram_record(&all, i * i, i);
  }
  histogram_add(&one, &two);
  CHECK(one.count == all.count && one.sum == all.sum && one.least == all.least);
  CHECK(one.greatest == all.greatest);
  for (double share = 0; share <= 1; share += 0.01)
    CHECK(histogram_quantile(&one, share) == histogram_quantile(&all, share));
  histogram_fini(&all);
}

static void huge_values_need_no_more_memory(void) {
  clear();
  histogram_record(&one, UINT64_MAX / 2, 1);
  histogram_record(&one, (uint64_t)1 << 50, 1);
  CHECK(one.count == 2 && one.greatest == UINT64_MAX / 2);
  CHECK(one.octaves[HISTOGRAM_OCTAVES - 1] != NULL);
  CHECK(histogram_quantile(&one, 1) >= (uint64_t)1 << 42);
}

int main(void) {
  RUN(an_empty_one_has_no_quantiles);
  RUN(small_values_are_exact);
  RUN(quantiles_of_a_line);
  RUN(every_octave_is_told_within_a_sixteenth);
  RUN(weights_stand_for_so_many);
  RUN(two_added_are_as_one);
  RUN(huge_values_need_no_more_memory);
  clear();
  return TEST_END();
}
