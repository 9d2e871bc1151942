/* Short runs of bytes, compared and copied in words that overlap: a call of the C library's
 * function costs as much as the rest of what is done with a name. */
#ifndef LP_BASE_BYTES_H
#define LP_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint64_t bytes_16 __attribute__((vector_size(16)));

static inline uint32_t bytes_load_4(const void *at) {
  uint32_t word;
  memcpy(&word, at, sizeof word);
  return word;
}

static inline uint64_t bytes_load_8(const void *at) {
  uint64_t word;
  memcpy(&word, at, sizeof word);
  return word;
}

static inline bytes_16 bytes_load_16(const void *at) {
  bytes_16 words;
  memcpy(&words, at, sizeof words);
  return words;
}

static inline bytes_16 bytes_differ_16(const char *a, const char *b) {
  return bytes_load_16(a) ^ bytes_load_16(b);
}

static inline __attribute__((always_inline)) bool bytes_same(const char *a, const char *b,
                                                             size_t length) {
  if (length >= 16) {
    bytes_16 differ = bytes_differ_16(a + length - 16, b + length - 16);
    for (size_t i = 0; i < length - 16; i += 16) differ |= bytes_differ_16(a + i, b + i);
    return !(differ[0] | differ[1]);
  }
  size_t last = length - 8;
  if (length >= 8)
    return !((bytes_load_8(a) ^ bytes_load_8(b)) |
             (bytes_load_8(a + last) ^ bytes_load_8(b + last)));
  last = length - 4;
  if (length >= 4)
    return !((bytes_load_4(a) ^ bytes_load_4(b)) |
             (bytes_load_4(a + last) ^ bytes_load_4(b + last)));
  for (size_t i = 0; i < length; i++)
    if (a[i] != b[i]) return false;
  return true;
}

static inline void bytes_copy(uint8_t *to, const void *from, size_t length) {
  const uint8_t *bytes = from;
  if (length < 16 || length > 256) {
    memcpy(to, from, length);
    return;
  }
  for (size_t i = 0; i < length - 16; i += 16) memcpy(to + i, bytes + i, 16);
  memcpy(to + length - 16, bytes + length - 16, 16);
}

/* The same, the shortest way, for a few bytes behind both of which 15 more can be read, and here
 * written. */
static inline void bytes_copy_beyond(uint8_t *to, const char *from, size_t length) {
  for (size_t i = 0; i < length; i += 16) memcpy(to + i, from + i, 16);
}

#endif
