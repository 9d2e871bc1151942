/* For the few functions on the way of every call: inlined also where the compiler would not, at
 * their one or two places. Measure before use (docs/performance.md). */
#ifndef LP_BASE_HOT_H
#define LP_BASE_HOT_H

#define HOT_INLINE static inline __attribute__((always_inline))

#endif
