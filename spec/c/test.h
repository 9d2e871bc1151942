/* The smallest test runner that names what failed. A test program is a list of
 * TEST functions called by main through RUN. */
#ifndef LP_SPEC_TEST_H
#define LP_SPEC_TEST_H
#include <stdio.h>
#include <string.h>
static int test_failed_now;
static __attribute__((unused)) int test_passed, test_failures; /* not where checks alone are used */
#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      test_failed_now = 1;                                                          \
      fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
    }                                                                               \
  } while (0)
#define RUN(test)                            \
  do {                                       \
    test_failed_now = 0;                     \
    test();                                  \
    if (test_failed_now) {                   \
      test_failures++;                       \
      fprintf(stderr, "FAILED %s\n", #test); \
    } else                                   \
      test_passed++;                         \
  } while (0)
#define TEST_END() \
  (printf("%d passed, %d failed\n", test_passed, test_failures), test_failures != 0)
#endif
