/* Lua values to MessagePack; see codec.h.
 *
 * Walks the values where they are, on the Lua stack, and stores behind `at`, which runs
 * ahead of out->length until the end. Nothing here allocates in Lua, so no protected
 * call is needed. Scalars are stored without asking for the message limit: the buffer
 * may run SLACK bytes over it, and the exact size is compared once, at the end. */
#include <assert.h>
#include <lauxlib.h>
#include <stdio.h>

#include "wire/codec.h"
#include "wire/codec_class.h"
#include "wire/codec_refusal.h"
#include "wire/text.h"
#include "wire/token.h"

static_assert(sizeof(lua_Integer) == 8 && sizeof(lua_Number) == 8, "the wire has 64-bit numbers");

enum {
  DEPTH_MAX = 200, /* bounds the C stack as well */
  LUA_SLOTS = 12,  /* Lua stack one level of nesting uses */
  SLACK = 16,      /* more than the longest number or a header that grew */
  EXT_HEAD = 3,    /* of an extension below 256 bytes */
  PLACE_TEXT = 64
};
/* A frame's length field has 32 bits; this leaves room for what surrounds the values. */
static const size_t message_bytes_max = 0xf0000000;

typedef struct writer {
  lua_State *L;
  const codec *rules;
  buffer *out;
  uint8_t *at, *stop;    /* next byte; end of the room that may be used unasked */
  size_t start;          /* out->length at the beginning */
  size_t limit, ceiling; /* message bytes; offset in `out` never passed: limit + SLACK */
  int depth, depth_max;  /* tables that are open now */
  refusal refused;
  const void *open[DEPTH_MAX]; /* identities of the open tables: to see cycles */
} writer;

static bool write_value(writer *w, int index);

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

static bool too_large(writer *w, size_t bytes) {
  return refusal_message(&w->refused, "message too large: %zu bytes > limit %zu", bytes, w->limit);
}

/* ---- room ------------------------------------------------------------------- */

static size_t offset(const writer *w) {
  return (size_t)(w->at - w->out->data);
}

/* Takes over where `out` is after its memory may have moved. */
static void reload(writer *w, size_t length) {
  w->at = w->out->data + length;
  w->stop = w->out->data + smaller(w->out->capacity, w->ceiling);
}

static bool grow(writer *w, size_t bytes) {
  size_t length = offset(w);
  if (bytes > w->ceiling - length) return too_large(w, length - w->start + bytes);
  w->out->length = length;
  if (!buffer_reserve(w->out, bytes)) return refusal_message(&w->refused, "out of memory");
  reload(w, length);
  return true;
}

static inline bool room(writer *w, size_t bytes) {
  return (size_t)(w->stop - w->at) >= bytes || grow(w, bytes);
}

/* Moves everything from `from` on by `bytes`, for a header longer than was reserved. */
static bool shift(writer *w, size_t from, size_t bytes) {
  if (!room(w, bytes)) return false;
  uint8_t *data = w->out->data + from;
  memmove(data + bytes, data, (size_t)(w->at - data));
  w->at += bytes;
  return true;
}

/* ---- scalars ---------------------------------------------------------------- */

/* A string so long that the heads of text and bytes have the same length. */
static void put_long_string(writer *w, const char *bytes, size_t length) {
  uint8_t *head = w->at;
  w->at = token_put_str(head, (uint32_t)length);
  if (!text_copy(w->at, bytes, length)) token_put_bin(head, (uint32_t)length);
  w->at += length;
}

static bool write_string(writer *w, int index) {
  size_t length;
  const char *bytes = lua_tolstring(w->L, index, &length);
  if (length > w->limit) return too_large(w, offset(w) - w->start + length);
  if (!room(w, length + TOKEN_HEAD_MAX)) return false;
  if (length > UINT16_MAX) {
    put_long_string(w, bytes, length);
    return true;
  }
  w->at = text_is_utf8(bytes, length) ? token_put_str(w->at, (uint32_t)length)
                                      : token_put_bin(w->at, (uint32_t)length);
  memcpy(w->at, bytes, length);
  w->at += length;
  return true;
}

static bool write_number(writer *w, int index) {
  if (!room(w, TOKEN_SCALAR_MAX)) return false;
  if (lua_isinteger(w->L, index))
    w->at = token_put_integer(w->at, lua_tointeger(w->L, index));
  else
    w->at = token_put_double(w->at, lua_tonumber(w->L, index));
  return true;
}

static bool write_boolean(writer *w, int index) {
  if (!room(w, 1)) return false;
  w->at = token_put_boolean(w->at, lua_toboolean(w->L, index));
  return true;
}

static bool write_nil(writer *w) {
  if (!room(w, 1)) return false;
  w->at = token_put_nil(w->at);
  return true;
}

static bool write_array_head(writer *w, lua_Unsigned count) {
  if (count > w->limit) return too_large(w, offset(w) - w->start + (size_t)count);
  if (!room(w, TOKEN_HEAD_MAX)) return false;
  w->at = token_put_array(w->at, (uint32_t)count);
  return true;
}

/* ---- maps ------------------------------------------------------------------- */

/* One byte was reserved at `start`; more pairs than 15 need a longer header. */
static bool close_map(writer *w, size_t start, size_t pairs) {
  size_t head = pairs < 16 ? 1 : pairs <= UINT16_MAX ? 3 : 5;
  if (head > 1 && !shift(w, start + 1, head - 1)) return false;
  token_put_map(w->out->data + start, (uint32_t)pairs);
  return true;
}

static bool write_map(writer *w, int index) {
  lua_State *L = w->L;
  int key = lua_gettop(L) + 1, value = key + 1;
  size_t pairs = 0, start = offset(w);
  if (!room(w, 1)) return false;
  w->at++;
  for (lua_pushnil(L); lua_next(L, index); lua_settop(L, key)) {
    if (!write_value(w, key)) return refusal_within(&w->refused, "[key]");
    if (!write_value(w, value)) return refusal_within_key(&w->refused, L, key);
    pairs++;
  }
  return close_map(w, start, pairs);
}

/* ---- arrays ----------------------------------------------------------------- */

/* The traversal behind the key on top, which it pops: true when the keys still to come and
 * the `seen` ones before are exactly 1 … count. */
static bool rest_is_sequence(lua_State *L, int index, lua_Unsigned count, lua_Unsigned seen) {
  int key = lua_gettop(L);
  for (; lua_next(L, index); lua_settop(L, key)) {
    bool fits = lua_isinteger(L, key) && (lua_Unsigned)lua_tointeger(L, key) - 1 < count;
    if (!fits) {
      lua_settop(L, key - 1);
      return false;
    }
    seen++;
  }
  return seen == count;
}

/* True when the keys are exactly 1 … count. */
static bool is_sequence(lua_State *L, int index, lua_Unsigned count) {
  lua_pushnil(L);
  return rest_is_sequence(L, index, count, 0);
}

typedef enum run_end { RUN_WHOLE, RUN_STOPPED, RUN_REFUSED } run_end;

/* Writes the value at `index` if it is a scalar. */
static inline run_end write_scalar(writer *w, int index) {
  switch (lua_type(w->L, index)) {
    case LUA_TNUMBER: return write_number(w, index) ? RUN_WHOLE : RUN_REFUSED;
    case LUA_TSTRING: return write_string(w, index) ? RUN_WHOLE : RUN_REFUSED;
    case LUA_TBOOLEAN: return write_boolean(w, index) ? RUN_WHOLE : RUN_REFUSED;
    default: return RUN_STOPPED;
  }
}

/* Writes elements as long as the traversal meets the keys 1, 2, 3 … in order and the
 * values are scalars, which is all of a plain array of numbers or strings: one pass.
 * Stopping before anything nested is what keeps a second attempt cheap. RUN_STOPPED leaves
 * the key it stopped at on the stack, the `done` + 1st one met. */
static run_end write_scalar_run(writer *w, int index, lua_Unsigned *done) {
  lua_State *L = w->L;
  int key = lua_gettop(L) + 1, value = key + 1;
  lua_Unsigned next = 1;
  run_end end = RUN_WHOLE;
  for (lua_pushnil(L); lua_next(L, index); lua_settop(L, key), next++) {
    bool fits = lua_isinteger(L, key) && (lua_Unsigned)lua_tointeger(L, key) == next;
    end = fits ? write_scalar(w, value) : RUN_STOPPED;
    if (end == RUN_WHOLE) continue;
    lua_settop(L, end == RUN_STOPPED ? key : key - 1);
    break;
  }
  *done = next - 1;
  return end;
}

/* After RUN_STOPPED: do all keys together, from the one on top (popped) on, make 1 … count? */
static bool stopped_in_sequence(lua_State *L, int index, lua_Unsigned count, lua_Unsigned done) {
  if (lua_isinteger(L, -1) && (lua_Unsigned)lua_tointeger(L, -1) - 1 < count)
    return rest_is_sequence(L, index, count, done + 1);
  lua_pop(L, 1);
  return false;
}

/* Writes the elements from `from` to `count`, holes as nil. */
static bool write_elements(writer *w, int index, lua_Unsigned from, lua_Unsigned count) {
  lua_State *L = w->L;
  int value = lua_gettop(L) + 1;
  for (lua_Unsigned i = from; i <= count; i++) {
    lua_rawgeti(L, index, (lua_Integer)i);
    if (!write_value(w, value)) return refusal_within_index(&w->refused, (lua_Integer)i);
    lua_settop(L, value - 1);
  }
  return true;
}

/* A table with a border of `count`: an array unless it has other keys or holes. */
static bool write_sequence(writer *w, int index, lua_Unsigned count) {
  size_t start = offset(w);
  lua_Unsigned done;
  /* A sparse table can have a border far above the number of its entries. */
  if (count > w->limit && !is_sequence(w->L, index, count)) return write_map(w, index);
  if (!write_array_head(w, count)) return false;
  run_end end = write_scalar_run(w, index, &done);
  if (end == RUN_REFUSED) return refusal_within_index(&w->refused, (lua_Integer)done + 1);
  if (end == RUN_WHOLE && done == count) return true;
  if (end == RUN_STOPPED && stopped_in_sequence(w->L, index, count, done))
    return write_elements(w, index, done + 1, count);
  w->at = w->out->data + start;
  return write_map(w, index);
}

/* A table by the normal rule: keys exactly 1..n (so also none) make an array. */
static bool write_fields(writer *w, int index) {
  lua_Unsigned count = lua_rawlen(w->L, index);
  if (count) return write_sequence(w, index, count);
  size_t start = offset(w);
  if (!write_map(w, index)) return false;
  if (offset(w) == start + 1) token_put_array(w->at - 1, 0);
  return true;
}

/* A table marked by lp.array: to its greatest index, holes as nil. */
static bool write_marked_array(writer *w, int index) {
  lua_State *L = w->L;
  int key = lua_gettop(L) + 1;
  lua_Unsigned count = 0;
  for (lua_pushnil(L); lua_next(L, index); lua_settop(L, key)) {
    if (!lua_isinteger(L, key) || lua_tointeger(L, key) < 1) {
      refusal_set(&w->refused, LP_INVALID_ARGUMENT,
                  "a table marked lp.array has a key that is no index");
      return refusal_within_key(&w->refused, L, key);
    }
    lua_Unsigned position = (lua_Unsigned)lua_tointeger(L, key);
    if (position > count) count = position;
  }
  return write_array_head(w, count) && write_elements(w, index, 1, count);
}

/* ---- instances of registered classes ---------------------------------------- */

/* EXT_HEAD bytes were reserved at `start`. */
static bool close_object(writer *w, size_t start) {
  size_t length = offset(w) - start - EXT_HEAD;
  size_t more = length <= UINT8_MAX ? 0 : length <= UINT16_MAX ? 1 : 3;
  if (more && !shift(w, start + EXT_HEAD, more)) return false;
  uint8_t *head = w->out->data + start;
  if (!more)
    head = token_put_8(head, 0xc7, (unsigned)length);
  else if (more == 1)
    head = token_put_16(head, 0xc8, (unsigned)length);
  else
    head = token_put_32(head, 0xc9, (uint32_t)length);
  *head = CODEC_EXT_OBJECT;
  return true;
}

/* Calls `pack` for the instance and leaves its results; their number, or -1. The call
 * may run anything, so `out` is handed over complete and taken back with suspicion. */
static int call_pack(writer *w, int index) {
  lua_State *L = w->L;
  int top = lua_gettop(L) - 1;
  size_t length = w->out->length = offset(w);
  lua_pushvalue(L, index);
  if (lua_pcall(L, 1, LUA_MULTRET, 0) != LUA_OK) {
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    refusal_set(&w->refused, LP_INVALID_ARGUMENT, "the pack function of its class failed: %.150s",
                text ? text : lua_typename(L, lua_type(L, -1)));
    return -1;
  }
  if (w->out->length != length) {
    refusal_set(&w->refused, LP_FAILED_PRECONDITION,
                "the pack function of its class sent something itself");
    return -1;
  }
  reload(w, length);
  int count = lua_gettop(L) - top;
  if (count <= w->rules->limits.values && lua_checkstack(L, LUA_SLOTS)) return count;
  refusal_set(&w->refused, LP_RESOURCE_EXHAUSTED,
              "the pack function of its class returned too many values");
  return -1;
}

/* The values of an instance whose `pack` is on top of the stack. */
static bool write_packed(writer *w, int index) {
  int first = lua_gettop(w->L);
  int count = call_pack(w, index);
  if (count < 0 || !write_array_head(w, (lua_Unsigned)count)) return false;
  for (int i = 0; i < count; i++)
    if (!write_value(w, first + i)) return refusal_within_index(&w->refused, i + 1);
  return true;
}

/* One more level of nesting; the caller takes it back from w->depth when done. */
static bool deepen(writer *w, const void *identity) {
  for (int i = 0; i < w->depth; i++)
    if (w->open[i] == identity)
      return refusal_set(&w->refused, LP_INVALID_ARGUMENT, "cannot send a cyclic table");
  if (w->depth >= w->depth_max)
    return refusal_set(&w->refused, LP_RESOURCE_EXHAUSTED, "nested deeper than %d", w->depth_max);
  if (!lua_checkstack(w->L, LUA_SLOTS))
    return refusal_message(&w->refused, "the Lua stack is full");
  w->open[w->depth++] = identity;
  return true;
}

/* The raw fields of an instance, as the one value of its class. The reader meets them
 * as a table in a table, so they count as one here too. */
static bool write_instance_fields(writer *w, int index) {
  if (lua_type(w->L, index) != LUA_TTABLE)
    return refusal_set(&w->refused, LP_INVALID_ARGUMENT,
                       "cannot send a userdata of a class without pack");
  const void *no_table = &w->open[w->depth];
  if (!write_array_head(w, 1) || !deepen(w, no_table)) return false;
  bool written = write_fields(w, index);
  w->depth--;
  return written;
}

/* The record of the instance's class is on top of the stack. */
static bool write_object(writer *w, int index) {
  lua_State *L = w->L;
  int record = lua_gettop(L);
  size_t start = offset(w);
  if (!room(w, EXT_HEAD)) return false;
  w->at += EXT_HEAD;
  lua_rawgeti(L, record, CLASS_NAME);
  if (!write_string(w, record + 1)) return false;
  bool packs = lua_rawgeti(L, record, CLASS_PACK) == LUA_TFUNCTION;
  if (!(packs ? write_packed(w, index) : write_instance_fields(w, index))) return false;
  return close_object(w, start);
}

/* ---- tables and userdata ---------------------------------------------------- */

static bool is_marked(lua_State *L, const void *metatable, codec_mark mark) {
  if (!mark_push(L, mark)) return false;
  bool same = lua_topointer(L, -1) == metatable;
  lua_pop(L, 1);
  return same;
}

/* The metatable of the table at `index` is on top of the stack. */
static bool write_with_metatable(writer *w, int index) {
  const void *metatable = lua_topointer(w->L, -1);
  if (is_marked(w->L, metatable, MARK_MAP)) return write_map(w, index);
  if (is_marked(w->L, metatable, MARK_ARRAY)) return write_marked_array(w, index);
  if (!w->rules->plain && class_push_of(w->L)) return write_object(w, index);
  return write_fields(w, index);
}

static bool write_table(writer *w, int index) {
  int top = lua_gettop(w->L);
  if (!deepen(w, lua_topointer(w->L, index))) return false;
  bool written =
      lua_getmetatable(w->L, index) ? write_with_metatable(w, index) : write_fields(w, index);
  if (written) lua_settop(w->L, top);
  w->depth--;
  return written;
}

/* Lets the engine write its own kinds; it appends to `out` itself. */
static bool write_foreign(writer *w, int index) {
  size_t length = w->out->length = offset(w);
  bool written = w->rules->hooks.write_userdata(w->L, index, w->out);
  if (!written) w->out->length = length;
  length = w->out->length;
  if (length > w->ceiling) return too_large(w, length - w->start);
  reload(w, length);
  return written || refusal_type(&w->refused, w->L, index);
}

/* The record of its class is on top of the stack. */
static bool write_class_userdata(writer *w, int index) {
  if (!deepen(w, lua_touserdata(w->L, index))) return false;
  bool written = write_object(w, index);
  w->depth--;
  return written;
}

static bool write_userdata(writer *w, int index) {
  int top = lua_gettop(w->L);
  bool written;
  if (!lua_checkstack(w->L, LUA_SLOTS))
    return refusal_message(&w->refused, "the Lua stack is full");
  if (w->rules->plain) return refusal_type(&w->refused, w->L, index);
  if (lua_getmetatable(w->L, index) && class_push_of(w->L))
    written = write_class_userdata(w, index);
  else
    written = w->rules->hooks.write_userdata ? write_foreign(w, index)
                                             : refusal_type(&w->refused, w->L, index);
  if (written) lua_settop(w->L, top);
  return written;
}

static bool write_value(writer *w, int index) {
  switch (lua_type(w->L, index)) {
    case LUA_TNIL: return write_nil(w);
    case LUA_TBOOLEAN: return write_boolean(w, index);
    case LUA_TNUMBER: return write_number(w, index);
    case LUA_TSTRING: return write_string(w, index);
    case LUA_TTABLE: return write_table(w, index);
    case LUA_TUSERDATA: return write_userdata(w, index);
    default: return refusal_type(&w->refused, w->L, index);
  }
}

/* ---- the whole message ------------------------------------------------------ */

/* Assigns the fields one by one: clearing the whole costs more than a small message. */
static void writer_init(writer *w, lua_State *L, const codec *rules, buffer *out) {
  w->L = L;
  w->rules = rules;
  w->out = out;
  w->start = out->length;
  w->limit = smaller(rules->limits.message_bytes, message_bytes_max);
  w->ceiling = w->start + w->limit + SLACK;
  w->depth = 0;
  w->depth_max = rules->limits.depth < DEPTH_MAX ? rules->limits.depth : DEPTH_MAX;
  refusal_init(&w->refused);
  reload(w, out->length);
}

static bool within_limit(writer *w) {
  size_t bytes = offset(w) - w->start;
  return bytes <= w->limit || too_large(w, bytes);
}

/* False: refused, at the value `number` counted from 1. */
static bool write_values(writer *w, int first, int count, int *number) {
  *number = 0;
  if (!write_array_head(w, (lua_Unsigned)count)) return false;
  while (*number < count)
    if (!write_value(w, first + (*number)++)) return false;
  return within_limit(w);
}

static lp_status commit(writer *w) {
  w->out->length = offset(w);
  return LP_OK;
}

/* Takes back what was written; `place` says which of the values was refused. */
static lp_status roll_back(writer *w, int top, const char *place, fault *why) {
  lua_settop(w->L, top);
  w->out->length = smaller(w->start, w->out->length);
  return refusal_report(&w->refused, place, why);
}

lp_status codec_write(lua_State *L, int first, int count, const char *what, const codec *rules,
                      buffer *out, fault *why) {
  if (count > rules->limits.values)
    return fault_set(why, LP_RESOURCE_EXHAUSTED, "too many values: %d %ss > limit %d", count, what,
                     rules->limits.values);
  writer w;
  char place[PLACE_TEXT];
  int number, top = lua_gettop(L);
  writer_init(&w, L, rules, out);
  if (write_values(&w, first, count, &number)) return commit(&w);
  snprintf(place, sizeof place, "%s %d", what, number);
  return roll_back(&w, top, place, why);
}

lp_status codec_write_value(lua_State *L, int index, const char *what, const codec *rules,
                            buffer *out, fault *why) {
  writer w;
  int top = lua_gettop(L);
  writer_init(&w, L, rules, out);
  if (write_value(&w, lua_absindex(L, index)) && within_limit(&w)) return commit(&w);
  return roll_back(&w, top, what, why);
}
