/* See text.h. */
#include "wire/text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

enum { QUOTED_BYTES = 40, NAME_BYTES = 40, FEW_BYTES = 256, PIECE_BYTES = 8192 };

/* 32 bytes put together into one. */
static inline bytes_16 fold_32(const uint8_t *at) {
  return bytes_load_16(at) | bytes_load_16(at + 16);
}

static inline bool all_ascii(bytes_16 folded) {
  return !((folded[0] | folded[1]) & TEXT_HIGH_BITS);
}

/* Length of the ASCII run at the start, up to 31 bytes less than it is. Bulk strings
 * spend their time here, hence 64 bytes at a time. */
static size_t ascii_run(const uint8_t *at, size_t length) {
  size_t passed = 0;
  while (length - passed >= 64 && all_ascii(fold_32(at + passed) | fold_32(at + passed + 32)))
    passed += 64;
  while (length - passed >= 32 && all_ascii(fold_32(at + passed))) passed += 32;
  return passed;
}

/* Second bytes allowed after a lead byte; this is where overlong forms, surrogates and
 * values past U+10FFFF show. */
static bool second_fits(uint8_t lead, uint8_t second) {
  uint8_t lowest = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  uint8_t highest = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  return second >= lowest && second <= highest;
}

/* Bytes of the well-formed character at `at`, 0 when there is none. */
static size_t character_length(const uint8_t *at, size_t length) {
  uint8_t lead = at[0];
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  size_t bytes = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (length < bytes || !second_fits(lead, at[1])) return 0;
  for (size_t i = 2; i < bytes; i++)
    if ((at[i] & 0xc0) != 0x80) return 0;
  return bytes;
}

bool text_is_utf8(const char *bytes, size_t length) {
  const uint8_t *at = (const uint8_t *)bytes;
  size_t passed = ascii_run(at, length);
  while (passed < length) {
    size_t step = character_length(at + passed, length - passed);
    if (!step) return false;
    passed += step;
    /* Back in ASCII after a foreign character: in large steps again. */
    if (step > 1 && passed < length && at[passed] < 0x80)
      passed += ascii_run(at + passed, length - passed);
  }
  return true;
}

/* Are the PIECE_BYTES at `bytes` all ASCII? Looks at every one of them, whatever comes. */
static bool piece_is_ascii(const char *bytes) {
  const uint8_t *at = (const uint8_t *)bytes;
  bytes_16 all = {0, 0};
  for (const uint8_t *end = at + PIECE_BYTES; at < end; at += 64)
    all |= fold_32(at) | fold_32(at + 32);
  return all_ascii(all);
}

/* Copies 32 … FEW_BYTES bytes, the last ones together with some before them. */
static bool copy_few(uint8_t *to, const char *bytes, size_t length) {
  bool ascii = true;
  for (size_t passed = 0; passed + 32 < length; passed += 32)
    ascii &= text_copy_ascii(to + passed, bytes + passed, 32);
  return ascii & text_copy_ascii(to + length - 32, bytes + length - 32, 32);
}

bool text_copy(uint8_t *to, const char *bytes, size_t length) {
  size_t passed = 0;
  if (length >= 32 && length <= FEW_BYTES && copy_few(to, bytes, length)) return true;
  while (length - passed >= PIECE_BYTES && piece_is_ascii(bytes + passed)) {
    memcpy(to + passed, bytes + passed, PIECE_BYTES);
    passed += PIECE_BYTES;
  }
  memcpy(to + passed, bytes + passed, length - passed);
  return text_is_utf8(bytes + passed, length - passed);
}

static size_t quote_character(char *out, const uint8_t *at, size_t step) {
  if (step == 1 && (*at == '"' || *at == '\\')) {
    out[0] = '\\';
    out[1] = (char)*at;
    return 2;
  }
  if (!step || *at < ' ' || *at == 0x7f) return (size_t)sprintf(out, "\\x%02x", *at);
  memcpy(out, at, step);
  return step;
}

const char *text_quote(char out[TEXT_QUOTED], const char *bytes, size_t length) {
  const uint8_t *at = (const uint8_t *)bytes;
  size_t used = 0, passed = 0;
  out[used++] = '"';
  while (passed < length && passed < QUOTED_BYTES) {
    size_t step = character_length(at + passed, length - passed);
    used += quote_character(out + used, at + passed, step);
    passed += step ? step : 1;
  }
  strcpy(out + used, passed < length ? "…\"" : "\"");
  return out;
}

static bool name_character(char c, bool first) {
  bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return letter || (!first && c >= '0' && c <= '9');
}

bool text_is_name(const char *bytes, size_t length) {
  if (!length || length > NAME_BYTES) return false;
  for (size_t i = 0; i < length; i++)
    if (!name_character(bytes[i], i == 0)) return false;
  return true;
}
