/* MessagePack to Lua values; see codec.h.
 *
 * Three accounts keep a hostile message cheap. `owed` counts the values that open
 * containers have promised: each takes a byte at least, so a container that promises
 * more than the bytes at hand is refused before anything is made for it. `budget` is
 * what the decoded values may still cost; `depth` bounds both stacks. */
#include <assert.h>
#include <lauxlib.h>
#include <limits.h>

#include "wire/codec.h"
#include "wire/codec_class.h"
#include "wire/text.h"
#include "wire/token.h"

enum {
  DEPTH_MAX = 200,
  LUA_SLOTS = 8, /* Lua stack one level of nesting uses */
  /* What values cost in memory, roughly. */
  COST_VALUE = 16,
  COST_STRING = 40,
  COST_TABLE = 56
};

typedef struct reader {
  lua_State *L;
  const codec *rules;
  const uint8_t *begin, *at, *end;
  uint64_t owed;     /* values still to come in open containers */
  uint64_t budget;   /* bytes of memory the values to come may take */
  size_t other_keys; /* keys so far that are no strings */
  int depth, depth_max;
  fault *why;
} reader;

static bool read_value(reader *r);

/* ---- refusals --------------------------------------------------------------- */

static size_t offset_of(const reader *r, const uint8_t *at) {
  return (size_t)(at - r->begin);
}

static size_t at_hand(const reader *r) {
  return (size_t)(r->end - r->at);
}

static bool truncated(reader *r, const uint8_t *at, uint64_t needed) {
  fault_set(r->why, LP_INVALID_ARGUMENT,
            "truncated at offset %zu: at least %llu bytes are needed there, %zu are at hand",
            offset_of(r, at), (unsigned long long)needed, (size_t)(r->end - at));
  return false;
}

static bool trailing(reader *r) {
  fault_set(r->why, LP_INVALID_ARGUMENT, "trailing bytes: %zu after the end at offset %zu",
            at_hand(r), offset_of(r, r->at));
  return false;
}

static bool expected(reader *r, const uint8_t *at, const char *what) {
  fault_set(r->why, LP_INVALID_ARGUMENT, "expected %s at offset %zu, found byte %02x", what,
            offset_of(r, at), *at);
  return false;
}

static bool refuse(reader *r, const uint8_t *at, const char *what) {
  fault_set(r->why, LP_INVALID_ARGUMENT, "%s at offset %zu", what, offset_of(r, at));
  return false;
}

static bool too_much(reader *r, const uint8_t *at, const char *what, size_t limit) {
  fault_set(r->why, LP_RESOURCE_EXHAUSTED, "%s > limit %zu at offset %zu", what, limit,
            offset_of(r, at));
  return false;
}

static bool too_deep(reader *r) {
  fault_set(r->why, LP_RESOURCE_EXHAUSTED, "nested deeper than %d at offset %zu", r->depth_max,
            offset_of(r, r->at));
  return false;
}

/* ---- accounts --------------------------------------------------------------- */

static bool charge(reader *r, uint64_t bytes) {
  if (bytes > r->budget)
    return too_much(r, r->at, "decoded message too large: memory it takes",
                    r->rules->limits.decoded_bytes);
  r->budget -= bytes;
  return true;
}

/* Passes the head of the next value. */
static inline bool next(reader *r, token *t) {
  token_state state = token_read(r->at, at_hand(r), t);
  if (state == TOKEN_READ) {
    r->at += t->head;
    return true;
  }
  if (state == TOKEN_SHORT)
    truncated(r, r->at, t->head);
  else
    refuse(r, r->at, "invalid byte c1");
  return false; /* and not what those return, for the compiler to see it */
}

/* Passes `length` bytes of payload; NULL when they are not all there. */
static const uint8_t *payload(reader *r, uint64_t length) {
  const uint8_t *bytes = r->at;
  if (length > at_hand(r)) {
    truncated(r, bytes, length);
    return NULL;
  }
  r->at += length;
  return bytes;
}

/* The values a container promises must fit in the bytes at hand next to those that
 * others promised. */
static bool promise(reader *r, uint64_t values) {
  if (values > at_hand(r) || values + r->owed > at_hand(r))
    return truncated(r, r->at, values + r->owed);
  r->owed += values;
  return true;
}

/* Enters a container of `values` values: every account at once. */
static bool enter(reader *r, uint64_t values) {
  if (!promise(r, values) || !charge(r, COST_TABLE + values * COST_VALUE)) return false;
  if (r->depth >= r->depth_max) return too_deep(r);
  if (!lua_checkstack(r->L, LUA_SLOTS)) return refuse(r, r->at, "the Lua stack is full");
  r->depth++;
  return true;
}

/* ---- values ----------------------------------------------------------------- */

static int presize(uint64_t count) {
  return count > INT_MAX / 2 ? INT_MAX / 2 : (int)count;
}

static bool read_string(reader *r, uint64_t length) {
  const uint8_t *bytes = payload(r, length);
  if (!bytes || !charge(r, COST_STRING + length)) return false;
  if (length >= CODEC_HOLE_LEAST && r->rules->hooks.push_long)
    r->rules->hooks.push_long(r->L, (const char *)bytes, (size_t)length);
  else
    lua_pushlstring(r->L, (const char *)bytes, (size_t)length);
  return true;
}

static bool read_array(reader *r, uint64_t count) {
  if (!enter(r, count)) return false;
  lua_State *L = r->L;
  lua_createtable(L, presize(count), 0);
  for (uint64_t i = 1; i <= count; i++) {
    r->owed--;
    if (!read_value(r)) return false;
    lua_rawseti(L, -2, (lua_Integer)i);
  }
  r->depth--;
  return true;
}

/* Checks the key on top of the stack; its bytes began at `at`. */
static bool check_key(reader *r, const uint8_t *at) {
  lua_State *L = r->L;
  int type = lua_type(L, -1);
  if (type == LUA_TSTRING) return true;
  if (type == LUA_TNIL) return refuse(r, at, "a map with the key nil");
  if (type == LUA_TNUMBER && !lua_rawequal(L, -1, -1))
    return refuse(r, at, "a map with the key NaN");
  size_t limit = r->rules->limits.other_keys;
  if (limit && ++r->other_keys > limit) return too_much(r, at, "keys that are no strings", limit);
  return true;
}

static bool read_pair(reader *r) {
  const uint8_t *key = r->at;
  r->owed--;
  if (!read_value(r) || !check_key(r, key)) return false;
  r->owed--;
  if (!read_value(r)) return false;
  lua_rawset(r->L, -3);
  return true;
}

static bool read_map(reader *r, uint64_t pairs) {
  if (!enter(r, pairs * 2)) return false;
  lua_createtable(r->L, 0, presize(pairs));
  for (uint64_t i = 0; i < pairs; i++)
    if (!read_pair(r)) return false;
  /* An empty map would be written as an array the next time. */
  if (!pairs && mark_push(r->L, MARK_MAP)) lua_setmetatable(r->L, -2);
  r->depth--;
  return true;
}

static bool read_unsigned(reader *r, const token *t) {
  if (t->value > (uint64_t)LUA_MAXINTEGER) {
    fault_set(r->why, LP_OUT_OF_RANGE, "integer %llu at offset %zu is beyond int64",
              (unsigned long long)t->value, offset_of(r, r->at - t->head));
    return false;
  }
  lua_pushinteger(r->L, (lua_Integer)t->value);
  return true;
}

static void push_float32(lua_State *L, uint64_t bits) {
  uint32_t four = (uint32_t)bits;
  float value;
  memcpy(&value, &four, sizeof value);
  lua_pushnumber(L, (lua_Number)value);
}

static void push_float64(lua_State *L, uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  lua_pushnumber(L, value);
}

/* ---- extensions ------------------------------------------------------------- */

/* Pushes the record of the class named by the next value. */
static bool read_class(reader *r) {
  token t;
  const uint8_t *at = r->at;
  if (!next(r, &t)) return false;
  if (t.kind != TOKEN_STRING && t.kind != TOKEN_BINARY) return expected(r, at, "a class name");
  const uint8_t *name = payload(r, t.value);
  if (!name) return false;
  if (class_push_named(r->L, (const char *)name, (size_t)t.value)) return true;
  char quoted[TEXT_QUOTED];
  fault_set(r->why, LP_FAILED_PRECONDITION,
            "the class %s at offset %zu was not given to lp.register here",
            text_quote(quoted, (const char *)name, (size_t)t.value), offset_of(r, at));
  return false;
}

/* Pushes the elements of the next value, an array, and gives their number. */
static bool read_elements(reader *r, int *count) {
  token t;
  const uint8_t *at = r->at;
  if (!next(r, &t)) return false;
  if (t.kind != TOKEN_ARRAY) return expected(r, at, "an array");
  int limit = r->rules->limits.values;
  if (t.value > (uint64_t)(limit > 0 ? limit : 0))
    return too_much(r, at, "values", (size_t)(limit > 0 ? limit : 0));
  if (!promise(r, t.value) || !charge(r, t.value * COST_VALUE)) return false;
  *count = (int)t.value;
  if (!lua_checkstack(r->L, *count + LUA_SLOTS)) return refuse(r, at, "the Lua stack is full");
  for (int i = 0; i < *count; i++) {
    r->owed--;
    if (!read_value(r)) return false;
  }
  return true;
}

/* What the unpack function of a class raised is on top. */
static bool unpack_failed(reader *r, const uint8_t *at) {
  size_t length;
  const char *text = luaL_tolstring(r->L, -1, &length);
  fault_set(r->why, LP_INVALID_ARGUMENT,
            "the unpack function of a class failed at offset %zu: %.200s", offset_of(r, at), text);
  return false;
}

/* Makes the instance from the values behind the record at `record`; leaves one value. */
static bool build_instance(reader *r, int record, int count, const uint8_t *at) {
  lua_State *L = r->L;
  if (lua_rawgeti(L, record, CLASS_UNPACK) == LUA_TFUNCTION) {
    lua_insert(L, record + 1);
    return lua_pcall(L, count, 1, 0) == LUA_OK || unpack_failed(r, at);
  }
  lua_pop(L, 1);
  if (count != 1 || !lua_istable(L, -1))
    return refuse(r, at, "an instance packed by a class that has no unpack here");
  lua_rawgeti(L, record, CLASS_METATABLE);
  lua_setmetatable(L, -2);
  return true;
}

/* The whole of an instance; r->end is its end. */
static bool read_instance(reader *r) {
  const uint8_t *at = r->at;
  int record = lua_gettop(r->L) + 1, count;
  if (!enter(r, 0) || !read_class(r) || !read_elements(r, &count)) return false;
  if (r->at != r->end) return trailing(r);
  if (!build_instance(r, record, count, at)) return false;
  lua_remove(r->L, record);
  r->depth--;
  return true;
}

/* Reads within the `length` bytes at `bytes` as if nothing came after them. */
static bool read_object(reader *r, const uint8_t *bytes, uint64_t length) {
  const uint8_t *end = r->end;
  uint64_t owed = r->owed;
  r->at = bytes;
  r->end = bytes + length;
  r->owed = 0;
  if (!read_instance(r)) return false;
  r->end = end;
  r->owed = owed;
  return true;
}

static bool read_ext(reader *r, const token *t) {
  const uint8_t *at = r->at - t->head;
  const uint8_t *bytes = payload(r, t->value);
  const codec *rules = r->rules;
  if (!bytes) return false;
  if (!rules->plain && t->ext_type == CODEC_EXT_OBJECT) return read_object(r, bytes, t->value);
  if (!rules->plain && t->ext_type != CODEC_EXT_FRAME && rules->hooks.read_ext) {
    if (!charge(r, COST_TABLE + t->value)) return false;
    if (rules->hooks.read_ext(r->L, t->ext_type, bytes, (size_t)t->value)) return true;
  }
  fault_set(r->why, LP_INVALID_ARGUMENT, "unknown extension type %d at offset %zu", t->ext_type,
            offset_of(r, at));
  return false;
}

static bool read_value(reader *r) {
  token t;
  t.ext_type = 0; /* set for extensions only, which compilers do not see */
  if (!next(r, &t)) return false;
  switch (t.kind) {
    case TOKEN_NIL: lua_pushnil(r->L); return true;
    case TOKEN_FALSE:
    case TOKEN_TRUE: lua_pushboolean(r->L, t.kind == TOKEN_TRUE); return true;
    case TOKEN_UNSIGNED: return read_unsigned(r, &t);
    case TOKEN_SIGNED: lua_pushinteger(r->L, (lua_Integer)t.value); return true;
    case TOKEN_FLOAT32: push_float32(r->L, t.value); return true;
    case TOKEN_FLOAT64: push_float64(r->L, t.value); return true;
    case TOKEN_STRING:
    case TOKEN_BINARY: return read_string(r, t.value);
    case TOKEN_ARRAY: return read_array(r, t.value);
    case TOKEN_MAP: return read_map(r, t.value);
    case TOKEN_EXT: return read_ext(r, &t);
    case TOKEN_NEVER: break;
  }
  assert(!"next lets no such token pass");
  return false;
}

/* ---- the whole message ------------------------------------------------------ */

static reader reader_of(lua_State *L, const uint8_t *data, size_t length, const codec *rules,
                        fault *why) {
  int depth = rules->limits.depth;
  return (reader){.L = L,
                  .rules = rules,
                  .begin = data,
                  .at = data,
                  .end = data + length,
                  .budget = rules->limits.decoded_bytes,
                  .depth_max = depth < DEPTH_MAX ? depth : DEPTH_MAX,
                  .why = why};
}

/* Leaves what was pushed when all was well, else nothing. */
static lp_status finish(reader *r, bool well, int top) {
  if (well && r->at != r->end) well = trailing(r);
  if (well) return LP_OK;
  lua_settop(r->L, top);
  return r->why->status;
}

lp_status codec_read(lua_State *L, const uint8_t *data, size_t length, const codec *rules,
                     int *count, fault *why) {
  fault local;
  reader r = reader_of(L, data, length, rules, why ? why : &local);
  int top = lua_gettop(L);
  *count = 0;
  lp_status status = finish(&r, read_elements(&r, count), top);
  if (status != LP_OK) *count = 0;
  return status;
}

lp_status codec_read_value(lua_State *L, const uint8_t *data, size_t length, const codec *rules,
                           fault *why) {
  fault local;
  reader r = reader_of(L, data, length, rules, why ? why : &local);
  int top = lua_gettop(L);
  if (!lua_checkstack(L, LUA_SLOTS))
    return fault_set(r.why, LP_RESOURCE_EXHAUSTED, "the Lua stack is full");
  return finish(&r, read_value(&r), top);
}
