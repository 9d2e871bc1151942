/* Byte strings as text: is it UTF-8, and how to show it in a message. */
#ifndef LP_WIRE_TEXT_H
#define LP_WIRE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* True for well-formed UTF-8 (no overlong forms, no surrogates, at most U+10FFFF). */
bool text_is_utf8(const char *bytes, size_t length);
/* Copies `length` bytes and tells the same about them. For long ones: they are looked at and
 * copied piece by piece, while a piece is in the processor's cache. */
bool text_copy(uint8_t *to, const char *bytes, size_t length);

/* Set in a word with a byte beyond ASCII. */
#define TEXT_HIGH_BITS UINT64_C(0x8080808080808080)

static inline uint64_t text_copy_8(uint8_t *to, const char *bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof word);
  memcpy(to, &word, sizeof word);
  return word;
}

static inline uint64_t text_copy_4(uint8_t *to, const char *bytes) {
  uint32_t word;
  memcpy(&word, bytes, sizeof word);
  memcpy(to, &word, sizeof word);
  return word;
}

static inline uint64_t text_copy_few(uint8_t *to, const char *bytes, size_t length) {
  uint8_t all = 0;
  for (size_t i = 0; i < length; i++) all |= to[i] = (uint8_t)bytes[i];
  return all;
}

/* Copies at most 32 bytes; true when all are ASCII (false says nothing but that). What
 * names and keys are is copied in words that overlap, without a call. */
static inline bool text_copy_ascii(uint8_t *to, const char *bytes, size_t length) {
  uint64_t all;
  if (length < 4) {
    all = text_copy_few(to, bytes, length);
  } else if (length < 8) {
    all = text_copy_4(to, bytes) | text_copy_4(to + length - 4, bytes + length - 4);
  } else {
    all = text_copy_8(to, bytes) | text_copy_8(to + length - 8, bytes + length - 8);
    if (length > 16)
      all |= text_copy_8(to + 8, bytes + 8) | text_copy_8(to + length - 16, bytes + length - 16);
  }
  return !(all & TEXT_HIGH_BITS);
}

/* Writes `"bytes"` for a person: controls and malformed bytes as \xHH, cut with "…"
 * after about 40 bytes. Always terminated; at most TEXT_QUOTED bytes with the end. */
enum { TEXT_QUOTED = 176 };
const char *text_quote(char out[TEXT_QUOTED], const char *bytes, size_t length);

/* True when `bytes` could stand behind a dot in Lua (and is not absurdly long). */
bool text_is_name(const char *bytes, size_t length);

#endif
