/* See codec_small.h. */
#include "wire/codec_small.h"

#include "base/bytes.h"
#include "base/hot.h"
#include "wire/strings.h"
#include "wire/text.h"
#include "wire/token.h"

enum { LONGEST = UINT16_MAX /* of a string here */ };

/* ---- writing ---------------------------------------------------------------- */

#define HIGH_BITS UINT64_C(0x8080808080808080) /* set in a word with a byte beyond ASCII */

/* Copies 4 to 8 bytes as two halves that may overlap. */
static inline uint64_t copy_halves(uint8_t *to, const char *from, size_t length) {
  uint32_t first = bytes_load_4(from), last = bytes_load_4(from + length - 4);
  memcpy(to, &first, 4);
  memcpy(to + length - 4, &last, 4);
  return first | last;
}

static inline bytes_16 copy_16(uint8_t *to, const char *from) {
  bytes_16 both = bytes_load_16(from);
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
  bytes_16 seen = copy_16(to + last, from + last);
  for (size_t i = 0; i < last; i += 16) seen |= copy_16(to + i, from + i);
  return !((seen[0] | seen[1]) & HIGH_BITS);
}

/* NULL: too long, no text, or no room. */
HOT_INLINE uint8_t *put_string(uint8_t *at, const uint8_t *stop, lua_State *L, int index) {
  size_t length;
  const char *bytes = lua_tolstring(L, index, &length);
  if (UNLIKELY(length > LONGEST || (ptrdiff_t)length > stop - at)) return NULL;
  at = token_put_str(at, (uint32_t)length);
  if (UNLIKELY(!copy_ascii(at, bytes, length)) && !text_is_utf8(bytes, length)) return NULL;
  return at + length;
}

static inline uint8_t *put_number(uint8_t *at, lua_State *L, int index) {
  if (lua_isinteger(L, index)) return token_put_integer(at, lua_tointeger(L, index));
  return token_put_double(at, lua_tonumber(L, index));
}

/* NULL: no scalar. */
static uint8_t *put_other(uint8_t *at, lua_State *L, int index, int type) {
  switch (type) {
    case LUA_TNUMBER: return put_number(at, L, index);
    case LUA_TBOOLEAN: return token_put_boolean(at, lua_toboolean(L, index));
    case LUA_TNIL: return token_put_nil(at);
    default: return NULL;
  }
}

/* `stop` is moved forward by what all of them take at most beside the bytes of strings: so only
 * these need to be asked for. */
HOT_SHARED uint8_t *codec_put_small(lua_State *L, int first, int count, const codec *rules,
                                    uint8_t *begin, const uint8_t *stop) {
  if (count > CODEC_SMALL) return NULL;
  uint8_t *at = token_put_array(begin, (uint32_t)count);
  stop -= count * TOKEN_SCALAR_MAX;
  if (at > stop) return NULL;
  for (; count > 0; count--, first++) {
    int type = lua_type(L, first);
    at = LIKELY(type == LUA_TSTRING) ? put_string(at, stop, L, first)
                                     : put_other(at, L, first, type);
    if (UNLIKELY(!at)) return NULL;
  }
  return (size_t)(at - begin) <= rules->limits.message_bytes ? at : NULL;
}

/* ---- reading ---------------------------------------------------------------- */

static inline void push_double(lua_State *L, uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  lua_pushnumber(L, value);
}

/* The next value, which is no short string; where the one behind it begins, NULL: not one of ours.
 */
static const uint8_t *read_other(lua_State *L, lua_State *to, const uint8_t *at, const uint8_t *end,
                                 const codec *rules) {
  token t;
  t.ext_type = 0;
  if (token_read(at, (size_t)(end - at), &t) != TOKEN_READ) return NULL;
  at += t.head;
  switch (t.kind) {
    case TOKEN_STRING:
    case TOKEN_BINARY:
      if (t.value > (size_t)(end - at) || t.value > LONGEST) return NULL;
      if (!strings_push(rules->strings, L, to, (const char *)at, (size_t)t.value)) return NULL;
      return at + t.value;
    case TOKEN_UNSIGNED:
      if (t.value > (uint64_t)LUA_MAXINTEGER) return NULL;
      lua_pushinteger(to, (lua_Integer)t.value);
      return at;
    case TOKEN_SIGNED: lua_pushinteger(to, (lua_Integer)t.value); return at;
    case TOKEN_FLOAT64: push_double(to, t.value); return at;
    case TOKEN_TRUE:
    case TOKEN_FALSE: lua_pushboolean(to, t.kind == TOKEN_TRUE); return at;
    case TOKEN_NIL: lua_pushnil(to); return at;
    default: return NULL;
  }
}

/* The same of any value. */
HOT_INLINE const uint8_t *read_one(lua_State *L, lua_State *to, const uint8_t *at,
                                   const uint8_t *end, const codec *rules) {
  if (at == end) return NULL;
  size_t length = *at - 0xa0U;
  if (length < 0x20)
    at++;
  else if (*at == 0xd9 && end - at > 1)
    length = at[1], at += 2;
  else
    return read_other(L, to, at, end, rules);
  if (UNLIKELY(length > (size_t)(end - at))) return NULL;
  return strings_push(rules->strings, L, to, (const char *)at, length) ? at + length : NULL;
}

HOT_SHARED int codec_read_small(lua_State *L, lua_State *to, const uint8_t *data, size_t length,
                                const codec *rules, const uint8_t **rest) {
  const uint8_t *at = data, *end = data + length;
  if (length == 0) return -1;
  unsigned count = *at++ - 0x90U;
  if (count > CODEC_SMALL) return -1;
  for (unsigned i = 0; i < count; i++) {
    if (LIKELY((at = read_one(L, to, at, end, rules)) != NULL)) continue;
    lua_pop(to, (int)i);
    return -1;
  }
  if (rest) *rest = at;
  if (rest || at == end) return (int)count;
  lua_pop(to, (int)count);
  return -1;
}

/* ---- copying ---------------------------------------------------------------- */

static inline size_t copy_string(lua_State *L, int index, lua_State *to, const codec *rules) {
  size_t length;
  const char *bytes = lua_tolstring(L, index, &length);
  if (UNLIKELY(!strings_push(rules->strings, NULL, to, bytes, length))) return 0;
  return length + (length <= TOKEN_STR_SHORT ? 1 : 2); /* none that is kept is longer */
}

static size_t copy_number(lua_State *L, int index, lua_State *to) {
  uint8_t scratch[TOKEN_SCALAR_MAX];
  if (lua_isinteger(L, index))
    lua_pushinteger(to, lua_tointeger(L, index));
  else
    lua_pushnumber(to, lua_tonumber(L, index));
  return (size_t)(put_number(scratch, L, index) - scratch);
}

/* 0: no scalar. */
static size_t copy_other(lua_State *L, int index, lua_State *to, int type) {
  switch (type) {
    case LUA_TNUMBER: return copy_number(L, index, to);
    case LUA_TBOOLEAN: lua_pushboolean(to, lua_toboolean(L, index)); return 1;
    case LUA_TNIL: lua_pushnil(to); return 1;
    default: return 0;
  }
}

HOT_SHARED size_t codec_copy_small(lua_State *L, int first, int count, lua_State *to,
                                   const codec *rules) {
  size_t bytes = 1, more;
  if (count > CODEC_SMALL) return 0;
  for (int i = 0; i < count; i++, bytes += more) {
    int type = lua_type(L, first + i);
    more = LIKELY(type == LUA_TSTRING) ? copy_string(L, first + i, to, rules)
                                       : copy_other(L, first + i, to, type);
    if (LIKELY(more)) continue;
    lua_pop(to, i);
    return 0;
  }
  return bytes;
}
