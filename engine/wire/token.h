/* One MessagePack token: the bytes that say what a value is and how long.
 *
 * The only place that knows the format's bytes. Reader, frame parser and splitter see
 * tokens; writers store through the token_put functions, which take a place with
 * enough room and return the place behind what they stored. All forms are read, the
 * shortest is written. */
#ifndef LP_WIRE_TOKEN_H
#define LP_WIRE_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum token_kind {
  TOKEN_NIL,
  TOKEN_FALSE,
  TOKEN_TRUE,
  TOKEN_UNSIGNED,
  TOKEN_SIGNED,
  TOKEN_FLOAT32,
  TOKEN_FLOAT64,
  TOKEN_STRING,
  TOKEN_BINARY,
  TOKEN_EXT,
  TOKEN_ARRAY,
  TOKEN_MAP,
  TOKEN_NEVER /* byte c1 */
} token_kind;

typedef struct token {
  token_kind kind;
  unsigned head;  /* bytes up to the payload, or to the first child: 1 … 9 */
  int ext_type;   /* TOKEN_EXT: -128 … 127 */
  uint64_t value; /* a number's bits; bytes of a string or extension; elements; pairs */
} token;

enum {
  TOKEN_SCALAR_MAX = 9, /* the longest number */
  TOKEN_HEAD_MAX = 6,   /* the longest head of anything with a payload or children */
  TOKEN_STR_SHORT = 31  /* text up to here has a head of one byte */
};

typedef enum token_state {
  TOKEN_READ,    /* the head is here; the payload may not be */
  TOKEN_SHORT,   /* `head` bytes are needed to know more */
  TOKEN_INVALID, /* byte c1, which MessagePack never uses */
} token_state;

typedef struct token_form {
  uint8_t kind;    /* a token_kind */
  uint8_t operand; /* bytes of number, length or count behind the first byte */
} token_form;
/* What the first bytes c0 … df mean. */
extern const token_form token_forms[32];

static inline uint64_t token_load(const uint8_t *at, unsigned bytes) {
  uint64_t value = 0;
  switch (bytes) {
    case 1: return at[0];
    case 2: return (uint64_t)at[0] << 8 | at[1];
    case 4: {
      uint32_t four;
      memcpy(&four, at, 4);
      return __builtin_bswap32(four);
    }
    case 8: memcpy(&value, at, 8); return __builtin_bswap64(value);
    default: return 0;
  }
}

static inline uint64_t token_extend(uint64_t value, unsigned bytes) { /* the sign */
  unsigned shift = 64 - 8 * bytes;
  return (uint64_t)((int64_t)(value << shift) >> shift);
}

/* Tokens whose first byte is c0 … df. */
static inline token_state token_read_form(const uint8_t *at, size_t available, token *out) {
  const token_form *form = &token_forms[*at - 0xc0];
  out->kind = (token_kind)form->kind;
  out->head = 1u + form->operand + (form->kind == TOKEN_EXT);
  if (form->kind == TOKEN_NEVER) return TOKEN_INVALID;
  if (available < out->head) return TOKEN_SHORT;
  out->value = token_load(at + 1, form->operand);
  if (form->kind == TOKEN_SIGNED) out->value = token_extend(out->value, form->operand);
  if (form->kind == TOKEN_EXT) {
    out->ext_type = (int8_t)at[out->head - 1];
    if (!form->operand) out->value = (uint64_t)1 << (*at - 0xd4);
  }
  return TOKEN_READ;
}

static inline token_state token_read(const uint8_t *at, size_t available, token *out) {
  out->head = 1;
  if (!available) return TOKEN_SHORT;
  uint8_t byte = *at;
  if (byte < 0x80) {
    out->kind = TOKEN_UNSIGNED;
    out->value = byte;
  } else if (byte >= 0xe0) {
    out->kind = TOKEN_SIGNED;
    out->value = token_extend(byte, 1);
  } else if (byte >= 0xc0) {
    return token_read_form(at, available, out);
  } else if (byte >= 0xa0) {
    out->kind = TOKEN_STRING;
    out->value = byte & 0x1fu;
  } else {
    out->kind = byte >= 0x90 ? TOKEN_ARRAY : TOKEN_MAP;
    out->value = byte & 0x0fu;
  }
  return TOKEN_READ;
}

/* Bytes that follow the head and are no tokens. */
static inline uint64_t token_payload(const token *t) {
  return t->kind >= TOKEN_STRING && t->kind <= TOKEN_EXT ? t->value : 0;
}

/* Values that follow the head. */
static inline uint64_t token_children(const token *t) {
  if (t->kind == TOKEN_ARRAY) return t->value;
  return t->kind == TOKEN_MAP ? t->value * 2 : 0;
}

/* ---- writing ---------------------------------------------------------------- */

static inline uint8_t *token_put_8(uint8_t *at, unsigned first, unsigned value) {
  at[0] = (uint8_t)first;
  at[1] = (uint8_t)value;
  return at + 2;
}

static inline uint8_t *token_put_16(uint8_t *at, unsigned first, unsigned value) {
  at[0] = (uint8_t)first;
  at[1] = (uint8_t)(value >> 8);
  at[2] = (uint8_t)value;
  return at + 3;
}

static inline uint8_t *token_put_32(uint8_t *at, unsigned first, uint32_t value) {
  at[0] = (uint8_t)first;
  value = __builtin_bswap32(value);
  memcpy(at + 1, &value, 4);
  return at + 5;
}

static inline uint8_t *token_put_64(uint8_t *at, unsigned first, uint64_t value) {
  at[0] = (uint8_t)first;
  value = __builtin_bswap64(value);
  memcpy(at + 1, &value, 8);
  return at + 9;
}

static inline uint8_t *token_put_byte(uint8_t *at, unsigned byte) {
  *at = (uint8_t)byte;
  return at + 1;
}

static inline uint8_t *token_put_negative(uint8_t *at, int64_t value) {
  if (value >= -32) return token_put_byte(at, (uint8_t)value);
  if (value >= INT8_MIN) return token_put_8(at, 0xd0, (uint8_t)value);
  if (value >= INT16_MIN) return token_put_16(at, 0xd1, (uint16_t)value);
  if (value >= INT32_MIN) return token_put_32(at, 0xd2, (uint32_t)value);
  return token_put_64(at, 0xd3, (uint64_t)value);
}

static inline uint8_t *token_put_integer(uint8_t *at, int64_t value) {
  if (value < 0) return token_put_negative(at, value);
  if (value < 0x80) return token_put_byte(at, (unsigned)value);
  if (value <= UINT8_MAX) return token_put_8(at, 0xcc, (unsigned)value);
  if (value <= UINT16_MAX) return token_put_16(at, 0xcd, (unsigned)value);
  if (value <= UINT32_MAX) return token_put_32(at, 0xce, (uint32_t)value);
  return token_put_64(at, 0xcf, (uint64_t)value);
}

static inline uint8_t *token_put_double(uint8_t *at, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return token_put_64(at, 0xcb, bits);
}

static inline uint8_t *token_put_boolean(uint8_t *at, bool value) {
  return token_put_byte(at, value ? 0xc3 : 0xc2);
}

static inline uint8_t *token_put_nil(uint8_t *at) {
  return token_put_byte(at, 0xc0);
}

static inline uint8_t *token_put_array(uint8_t *at, uint32_t count) {
  if (count < 16) return token_put_byte(at, 0x90 | count);
  return count <= UINT16_MAX ? token_put_16(at, 0xdc, count) : token_put_32(at, 0xdd, count);
}

static inline uint8_t *token_put_map(uint8_t *at, uint32_t pairs) {
  if (pairs < 16) return token_put_byte(at, 0x80 | pairs);
  return pairs <= UINT16_MAX ? token_put_16(at, 0xde, pairs) : token_put_32(at, 0xdf, pairs);
}

/* The heads of a text or a byte string; the bytes are the caller's to append. */
static inline uint8_t *token_put_str(uint8_t *at, uint32_t length) {
  if (length <= TOKEN_STR_SHORT) return token_put_byte(at, 0xa0 | length);
  if (length <= UINT8_MAX) return token_put_8(at, 0xd9, length);
  return length <= UINT16_MAX ? token_put_16(at, 0xda, length) : token_put_32(at, 0xdb, length);
}

static inline uint8_t *token_put_bin(uint8_t *at, uint32_t length) {
  if (length <= UINT8_MAX) return token_put_8(at, 0xc4, length);
  return length <= UINT16_MAX ? token_put_16(at, 0xc5, length) : token_put_32(at, 0xc6, length);
}

#endif
