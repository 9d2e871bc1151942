/* See codec_small.h. */
#include "wire/codec_small.h"

#include "wire/strings.h"
#include "wire/text.h"
#include "wire/token.h"

enum { LONGEST = UINT16_MAX /* of a string here, and of a message that is read */ };

/* ---- writing ---------------------------------------------------------------- */

#define HIGH_BITS UINT64_C(0x8080808080808080) /* set in a word with a byte beyond ASCII */
typedef uint64_t words __attribute__((vector_size(16)));

/* Copies 4 to 8 bytes as two halves that may overlap. */
static inline uint64_t copy_halves(uint8_t *to, const char *from, size_t length) {
  uint32_t first, last;
  memcpy(&first, from, 4);
  memcpy(&last, from + length - 4, 4);
  memcpy(to, &first, 4);
  memcpy(to + length - 4, &last, 4);
  return first | last;
}

static inline words copy_words(uint8_t *to, const char *from) {
  words both;
  memcpy(&both, from, sizeof both);
  memcpy(to, &both, sizeof both);
  return both;
}

static inline uint64_t copy_below_16(uint8_t *to, const char *from, size_t length) {
  if (length >= 8)
    return copy_halves(to, from, 8) | copy_halves(to + length - 8, from + length - 8, 8);
  if (length >= 4) return copy_halves(to, from, length);
  uint64_t seen = 0;
  for (size_t i = 0; i < length; i++) seen |= to[i] = (uint8_t)from[i];
  return seen;
}

/* Copies, and tells whether all is ASCII. */
static inline bool copy_ascii(uint8_t *to, const char *from, size_t length) {
  if (length < 16) return !(copy_below_16(to, from, length) & HIGH_BITS);
  size_t last = length - 16;
  words seen = copy_words(to + last, from + last);
  for (size_t i = 0; i < last; i += 16) seen |= copy_words(to + i, from + i);
  return !((seen[0] | seen[1]) & HIGH_BITS);
}

/* What has to be left behind every value, so that scalars need not ask: `rest` of them follow. */
static inline size_t reserved(int rest) {
  return (size_t)rest * TOKEN_SCALAR_MAX;
}

/* NULL: too long, no text, or no room. */
static uint8_t *put_string(uint8_t *at, const uint8_t *stop, lua_State *L, int index, int rest) {
  size_t length;
  const char *bytes = lua_tolstring(L, index, &length);
  if (length > LONGEST || length + TOKEN_HEAD_MAX + reserved(rest) > (size_t)(stop - at))
    return NULL;
  at = token_put_str(at, (uint32_t)length);
  if (!copy_ascii(at, bytes, length) && !text_is_utf8(bytes, length)) return NULL;
  return at + length;
}

static inline uint8_t *put_number(uint8_t *at, lua_State *L, int index) {
  if (lua_isinteger(L, index)) return token_put_integer(at, lua_tointeger(L, index));
  return token_put_double(at, lua_tonumber(L, index));
}

uint8_t *codec_put_small(lua_State *L, int first, int count, const codec *rules, uint8_t *begin,
                         const uint8_t *stop) {
  if (count > CODEC_SMALL || 1 + reserved(count) > (size_t)(stop - begin)) return NULL;
  uint8_t *at = token_put_array(begin, (uint32_t)count);
  for (int rest = count - 1; rest >= 0; rest--, first++) {
    switch (lua_type(L, first)) {
      case LUA_TSTRING:
        if (!(at = put_string(at, stop, L, first, rest))) return NULL;
        break;
      case LUA_TNUMBER: at = put_number(at, L, first); break;
      case LUA_TBOOLEAN: at = token_put_boolean(at, lua_toboolean(L, first)); break;
      case LUA_TNIL: at = token_put_nil(at); break;
      default: return NULL;
    }
  }
  return (size_t)(at - begin) <= rules->limits.message_bytes ? at : NULL;
}

/* ---- reading ---------------------------------------------------------------- */

static inline void push_double(lua_State *L, uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  lua_pushnumber(L, value);
}

/* The same for a string of `length` bytes at `at`. */
static inline const uint8_t *read_string(lua_State *L, const uint8_t *at, const uint8_t *end,
                                         uint64_t length, const codec *rules) {
  if (length > (size_t)(end - at)) return NULL;
  strings_push(rules->strings, L, (const char *)at, (size_t)length);
  return at + length;
}

/* Pushes the value at `at`, of which there is a byte at least, and gives where the next begins;
 * NULL: not one of ours. */
static inline const uint8_t *read_one(lua_State *L, const uint8_t *at, const uint8_t *end,
                                      const codec *rules) {
  if ((*at & 0xe0) == 0xa0) return read_string(L, at + 1, end, *at & 0x1f, rules);
  if (*at == 0xd9 && end - at > 1) return read_string(L, at + 2, end, at[1], rules);
  token t;
  t.ext_type = 0;
  if (token_read(at, (size_t)(end - at), &t) != TOKEN_READ) return NULL;
  at += t.head;
  switch (t.kind) {
    case TOKEN_STRING:
    case TOKEN_BINARY: return read_string(L, at, end, t.value, rules);
    case TOKEN_UNSIGNED:
      if (t.value > (uint64_t)LUA_MAXINTEGER) return NULL;
      lua_pushinteger(L, (lua_Integer)t.value);
      return at;
    case TOKEN_SIGNED: lua_pushinteger(L, (lua_Integer)t.value); return at;
    case TOKEN_FLOAT64: push_double(L, t.value); return at;
    case TOKEN_TRUE:
    case TOKEN_FALSE: lua_pushboolean(L, t.kind == TOKEN_TRUE); return at;
    case TOKEN_NIL: lua_pushnil(L); return at;
    default: return NULL;
  }
}

int codec_read_small(lua_State *L, const uint8_t *data, size_t length, const codec *rules) {
  const uint8_t *at = data, *end = data + length;
  if (length == 0 || length > LONGEST || (*at & 0xf0) != 0x90) return -1;
  int count = *at++ & 0x0f;
  for (int i = 0; i < count; i++) {
    if (at < end && (at = read_one(L, at, end, rules))) continue;
    lua_pop(L, i);
    return -1;
  }
  if (at == end) return count;
  lua_pop(L, count);
  return -1;
}
