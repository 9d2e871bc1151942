/* What fuzzers and the replay of their corpus share. A target is a function that is given bytes; it
 * aborts when something is not as it must be. The same functions run under libFuzzer
 * (./dev fuzz) and, on the kept corpus, in every build's C tests (spec/c/test_corpus.c). */
#ifndef LP_SPEC_FUZZ_H
#define LP_SPEC_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The decoder: bytes to values, back to bytes, and to the same values again. */
void fuzz_decode(const uint8_t *data, size_t length);
/* The splitter: the same frames however the bytes are cut; and frames taken apart. */
void fuzz_frames(const uint8_t *data, size_t length);
/* A node that strangers, engines and servers talk to: nothing of them is left, it goes on. */
void fuzz_session(const uint8_t *data, size_t length);

#define FUZZ_CHECK(condition)                                                       \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                                      \
    }                                                                               \
  } while (0)

/* Memory that the whole program has in use (fuzz_memory.c); `peak` is the most since
 * fuzz_memory_mark, which returns what is in use now. */
size_t fuzz_memory_mark(void);
size_t fuzz_memory_peak(void);
size_t fuzz_memory_now(void);

#endif
