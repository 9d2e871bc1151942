/* For the few functions on the way of every call: inlined also where the compiler would not, at
 * each place that calls them. Measure before use (docs/performance.md). */
#ifndef LP_BASE_HOT_H
#define LP_BASE_HOT_H

#define HOT_INLINE static inline __attribute__((always_inline))
/* The same of a function that a header declares, when everything is linked as a whole. */
#define HOT_SHARED inline __attribute__((always_inline))
/* And for those that are hardly ever called: kept out of their way. */
#define COLD __attribute__((cold, noinline))
/* Not on the way of most calls, though often used: not inlined. */
#define ASIDE __attribute__((noinline))
/* On that way: what nearly every call comes to, so that the code for it lies together. */
#define LIKELY(condition)   __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#endif
