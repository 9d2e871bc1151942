/* Lua values to MessagePack; see codec.h and codec_writer.h.
 *
 * Nothing here allocates in Lua, so no protected call is needed. */
#include <assert.h>
#include <lauxlib.h>
#include <stdio.h>

#include "base/hot.h"
#include "wire/codec.h"
#include "wire/codec_class.h"
#include "wire/codec_writer.h"
#include "wire/text.h"
#include "wire/token.h"

static_assert(sizeof(lua_Integer) == 8 && sizeof(lua_Number) == 8, "the wire has 64-bit numbers");

enum { PLACE_TEXT = 64 };
/* A frame's length field has 32 bits; this leaves room for what surrounds the values. */
static const size_t message_bytes_max = 0xf0000000;

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

/* ---- room ------------------------------------------------------------------- */

bool writer_too_large(writer *w, size_t bytes) {
  /* What contains itself has no size. */
  if (w->depth && writer_finds_cycle(w)) return false;
  return refusal_message(&w->refused, "message too large: %zu bytes > limit %zu", bytes, w->limit);
}

void writer_reload(writer *w, size_t length) {
  w->at = w->out->data + length;
  w->stop = w->out->data + smaller(w->out->capacity, w->ceiling);
}

bool writer_grow(writer *w, size_t bytes) {
  size_t length = writer_offset(w);
  if (bytes > w->ceiling - length) return writer_too_large(w, writer_bytes(w) + bytes);
  w->out->length = length;
  if (!buffer_reserve(w->out, bytes)) return refusal_message(&w->refused, "out of memory");
  writer_reload(w, length);
  return true;
}

bool writer_shift(writer *w, size_t from, size_t bytes) {
  if (!writer_room(w, bytes)) return false;
  uint8_t *data = w->out->data + from;
  memmove(data + bytes, data, (size_t)(w->at - data));
  w->at += bytes;
  if (writer_left_out(w, from)) w->hole->at += bytes;
  return true;
}

bool writer_keeps_all(writer *w) {
  w->starts_over = w->left_out > 0;
  w->hole = NULL;
  return !w->starts_over;
}

/* ---- scalars ---------------------------------------------------------------- */

/* Writes the head alone: what it is the head of takes of the room there is for the message. */
static void leave_out(writer *w, const char *bytes, size_t length) {
  w->at = text_is_utf8(bytes, length) ? token_put_str(w->at, (uint32_t)length)
                                      : token_put_bin(w->at, (uint32_t)length);
  w->left_out = length;
  w->ceiling -= length;
  *w->hole = (hole){bytes, length, writer_offset(w)};
  writer_reload(w, w->hole->at);
}

/* A string so long that the heads of text and bytes have the same length. */
static void put_long_string(writer *w, const char *bytes, size_t length) {
  uint8_t *head = w->at;
  if (length >= CODEC_HOLE_LEAST && w->hole && !w->left_out) {
    leave_out(w, bytes, length);
    return;
  }
  w->at = token_put_str(head, (uint32_t)length);
  if (!text_copy(w->at, bytes, length)) token_put_bin(head, (uint32_t)length);
  w->at += length;
}

/* A short one that is not ASCII. */
static void put_short_string(writer *w, const char *bytes, size_t length) {
  w->at = text_is_utf8(bytes, length) ? token_put_str(w->at, (uint32_t)length)
                                      : token_put_bin(w->at, (uint32_t)length);
  memcpy(w->at, bytes, length);
  w->at += length;
}

static bool room_for_string(writer *w, size_t length) {
  if (length > w->limit) return writer_too_large(w, writer_bytes(w) + length);
  return writer_room(w, length + TOKEN_HEAD_MAX);
}

bool write_string(writer *w, int index) {
  size_t length;
  const char *bytes = lua_tolstring(w->L, index, &length);
  size_t free_bytes = (size_t)(w->stop - w->at);
  bool fits = free_bytes >= TOKEN_HEAD_MAX && free_bytes - TOKEN_HEAD_MAX >= length;
  if (!fits && !room_for_string(w, length)) return false;
  if (length > TOKEN_STR_SHORT) {
    put_long_string(w, bytes, length);
  } else if (text_copy_ascii(w->at + 1, bytes, length)) {
    token_put_str(w->at, (uint32_t)length);
    w->at += 1 + length;
  } else {
    put_short_string(w, bytes, length);
  }
  return true;
}

static inline bool write_number(writer *w, int index) {
  if (!writer_room(w, TOKEN_SCALAR_MAX)) return false;
  if (lua_isinteger(w->L, index))
    w->at = token_put_integer(w->at, lua_tointeger(w->L, index));
  else
    w->at = token_put_double(w->at, lua_tonumber(w->L, index));
  return true;
}

static bool write_boolean(writer *w, int index) {
  if (!writer_room(w, 1)) return false;
  w->at = token_put_boolean(w->at, lua_toboolean(w->L, index));
  return true;
}

static bool write_nil(writer *w) {
  if (!writer_room(w, 1)) return false;
  w->at = token_put_nil(w->at);
  return true;
}

bool write_array_head(writer *w, lua_Unsigned count) {
  if (count > w->limit) return writer_too_large(w, writer_bytes(w) + (size_t)count);
  if (!writer_room(w, TOKEN_HEAD_MAX)) return false;
  w->at = token_put_array(w->at, (uint32_t)count);
  return true;
}

HOT_INLINE bool write_typed(writer *w, int index, int type);

/* ---- maps ------------------------------------------------------------------- */

/* A table that is written as a map: its index, that of the key the walk is at (the value is
 * above it), and the pairs so far. */
typedef struct map {
  int index, key;
  uint64_t pairs;
} map;

/* The pair that is on the stack. */
static inline bool write_pair(writer *w, map *m) {
  bool text = lua_type(w->L, m->key) == LUA_TSTRING;
  if (!(text ? write_string(w, m->key) : write_value(w, m->key)))
    return refusal_within(&w->refused, "[key]");
  if (!write_value(w, m->key + 1)) return refusal_within_key(&w->refused, w->L, m->key);
  m->pairs++;
  return true;
}

/* One byte was reserved at `start`; more pairs than 15 need a longer head. */
static bool close_map(writer *w, size_t start, uint64_t pairs) {
  size_t head = pairs < 16 ? 1 : pairs <= UINT16_MAX ? 3 : 5;
  if (head > 1 && !writer_shift(w, start + 1, head - 1)) return false;
  token_put_map(w->out->data + start, (uint32_t)pairs);
  return true;
}

/* The pair that is on the stack and all that follow it. */
static bool write_pairs(writer *w, int index, int key) {
  map m = {index, key, 0};
  size_t start = writer_offset(w);
  if (!writer_room(w, 1)) return false;
  w->at++;
  do {
    if (!write_pair(w, &m)) return false;
    lua_pop(w->L, 1);
  } while (lua_next(w->L, index));
  return close_map(w, start, m.pairs);
}

static bool write_map(writer *w, int index) {
  int key = lua_gettop(w->L) + 1;
  lua_pushnil(w->L);
  if (lua_next(w->L, index)) return write_pairs(w, index, key);
  if (!writer_room(w, 1)) return false;
  w->at = token_put_map(w->at, 0);
  return true;
}

/* ---- arrays ----------------------------------------------------------------- */

enum { PILE = 4 /* elements that stay on the stack before they are dropped at once */ };

/* Writes t[1], t[2], … up to `count` or the first nil, and how many into `done`. */
static inline bool write_elements(writer *w, int index, int base, lua_Unsigned count,
                                  lua_Unsigned *done) {
  lua_State *L = w->L;
  int top = base;
  lua_Unsigned i = 0;
  for (; i < count; i++) {
    if (top == base + PILE) {
      lua_pop(L, PILE);
      top = base;
    }
    int type = lua_rawgeti(L, index, (lua_Integer)i + 1);
    if (type == LUA_TNIL) break;
    if (!write_typed(w, ++top, type)) return refusal_within_index(&w->refused, (lua_Integer)i + 1);
  }
  lua_settop(L, base);
  *done = i;
  return true;
}

/* The end of the value that was written at `at`. */
static const uint8_t *skip_value(const uint8_t *at) {
  token t;
  t.value = 0; /* for compilers: nothing but what was written here comes by */
  for (uint64_t values = 1; values; values--) {
    token_read(at, TOKEN_SCALAR_MAX, &t);
    at += t.head + token_payload(&t);
    values += token_children(&t);
  }
  return at;
}

static size_t bytes_of_keys(lua_Unsigned count) {
  uint8_t place[TOKEN_SCALAR_MAX];
  size_t bytes = 0;
  for (lua_Unsigned i = 1; i <= count; i++)
    bytes += (size_t)(token_put_integer(place, (int64_t)i) - place);
  return bytes;
}

/* Puts the keys 1 … count before the last values written, those from offset `from` on: they
 * are moved behind the room the keys need and come back one by one. */
static bool insert_keys(writer *w, size_t from, lua_Unsigned count) {
  size_t bytes = bytes_of_keys(count);
  if (!writer_shift(w, from, bytes)) return false;
  uint8_t *to = w->out->data + from;
  const uint8_t *value = to + bytes;
  for (lua_Unsigned i = 1; i <= count; i++) {
    const uint8_t *end = skip_value(value);
    to = token_put_integer(to, (int64_t)i);
    memmove(to, value, (size_t)(end - value));
    to += end - value;
    value = end;
  }
  return true;
}

/* All pairs but those of the keys 1 … done. */
static bool write_other_pairs(writer *w, map *m, lua_Unsigned done) {
  lua_State *L = w->L;
  for (lua_pushnil(L); lua_next(L, m->index); lua_settop(L, m->key)) {
    bool met = lua_isinteger(L, m->key) && (lua_Unsigned)lua_tointeger(L, m->key) - 1 < done;
    if (!met && !write_pair(w, m)) return false;
  }
  return true;
}

/* A table of `count` keys of which only 1 … done are in sequence: those were written as an
 * array with its head at `start`. Nothing is written a second time, which at every level
 * of a deep table would add up. */
static bool write_mixed(writer *w, int index, size_t start, lua_Unsigned count, lua_Unsigned done) {
  map m = {index, lua_gettop(w->L) + 1, done};
  if (writer_left_out(w, start) && !writer_keeps_all(w)) return false;
  uint8_t *values = token_put_map(w->out->data + start, (uint32_t)count); /* as long */
  if (!insert_keys(w, (size_t)(values - w->out->data), done)) return false;
  if (!write_other_pairs(w, &m, done)) return false;
  return m.pairs == count || refusal_set(&w->refused, LP_FAILED_PRECONDITION,
                                         "a pack function changed the table it is in");
}

/* How many keys there are: the first is on the stack with its value, and is taken off. */
static inline lua_Unsigned count_keys(lua_State *L, int index) {
  lua_Unsigned count = 1;
  for (lua_pop(L, 1); lua_next(L, index); lua_pop(L, 1)) count++;
  return count;
}

/* The table has `count` keys: an array if t[1] … t[count] are there. So no key needs to be
 * looked at. */
static inline bool write_array(writer *w, int index, int base, lua_Unsigned count) {
  size_t start = writer_offset(w);
  lua_Unsigned done = 0;
  if (count < 16 && writer_room(w, 1))
    w->at = token_put_array(w->at, (uint32_t)count);
  else if (!write_array_head(w, count))
    return false;
  if (!write_elements(w, index, base, count, &done)) return false;
  return done == count || write_mixed(w, index, start, count, done);
}

/* A table by the normal rule: keys exactly 1..n (so also none) make an array. The stack's
 * top is `base`. */
bool write_fields(writer *w, int index, int base) {
  lua_State *L = w->L;
  lua_pushnil(L);
  if (!lua_next(L, index)) return write_array_head(w, 0);
  if (!lua_isinteger(L, base + 1)) return write_pairs(w, index, base + 1);
  return write_array(w, index, base, count_keys(L, index));
}

/* ---- marked tables ------------------------------------------------------------- */

/* The elements up to `count`, holes as nil. */
static bool write_holes(writer *w, int index, lua_Unsigned count) {
  lua_State *L = w->L;
  int value = lua_gettop(L) + 1;
  for (lua_Unsigned i = 1; i <= count; i++) {
    lua_rawgeti(L, index, (lua_Integer)i);
    if (!write_value(w, value)) return refusal_within_index(&w->refused, (lua_Integer)i);
    lua_settop(L, value - 1);
  }
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
  return write_array_head(w, count) && write_holes(w, index, count);
}

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
  return write_fields(w, index, lua_gettop(w->L));
}

/* ---- any value ------------------------------------------------------------------ */

static bool write_marked(writer *w, int index) {
  int top = lua_gettop(w->L) - 1;
  bool written = write_with_metatable(w, index);
  if (written) lua_settop(w->L, top);
  return written;
}

/* The stack's top is `base`. */
static inline bool write_table(writer *w, int index, int base) {
  if (!writer_deepen(w, index)) return false;
  bool plain = !lua_getmetatable(w->L, index);
  return writer_leave(w, plain ? write_fields(w, index, base) : write_marked(w, index));
}

HOT_INLINE bool write_typed(writer *w, int index, int type) {
  switch (type) {
    case LUA_TNIL: return write_nil(w);
    case LUA_TBOOLEAN: return write_boolean(w, index);
    case LUA_TNUMBER: return write_number(w, index);
    case LUA_TSTRING: return write_string(w, index);
    case LUA_TTABLE: return write_table(w, index, lua_gettop(w->L));
    case LUA_TUSERDATA: return write_userdata(w, index);
    default: return refusal_type(&w->refused, w->L, index);
  }
}

bool write_value(writer *w, int index) {
  return write_typed(w, index, lua_type(w->L, index));
}

/* ---- the whole message ------------------------------------------------------ */

/* Assigns the fields one by one: clearing the whole costs more than a small message. */
static void writer_init(writer *w, lua_State *L, const codec *rules, buffer *out, hole *hole) {
  w->L = L;
  w->rules = rules;
  w->out = out;
  w->start = out->length;
  w->limit = smaller(rules->limits.message_bytes, message_bytes_max);
  w->ceiling = w->start + w->limit + WRITER_SLACK;
  w->depth = w->unwatched = 0;
  w->depth_max = rules->limits.depth < WRITER_DEPTH_MAX ? rules->limits.depth : WRITER_DEPTH_MAX;
  w->cycle = -1;
  w->hole = hole;
  w->left_out = 0;
  w->starts_over = false;
  refusal_init(&w->refused);
  writer_reload(w, out->length);
}

static bool within_limit(writer *w) {
  size_t bytes = writer_bytes(w);
  return bytes <= w->limit || writer_too_large(w, bytes);
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
  w->out->length = writer_offset(w);
  return LP_OK;
}

static void take_back(writer *w, int top) {
  lua_settop(w->L, top);
  w->out->length = smaller(w->start, w->out->length);
}

/* Takes back what was written; `place` says which of the values was refused. */
static lp_status roll_back(writer *w, int top, const char *place, fault *why) {
  take_back(w, top);
  return refusal_report(&w->refused, place, why);
}

lp_status codec_write_around(lua_State *L, int first, int count, const char *what,
                             const codec *rules, buffer *out, hole *hole, fault *why) {
  if (count > rules->limits.values)
    return fault_set(why, LP_RESOURCE_EXHAUSTED, "too many values: %d %ss > limit %d", count, what,
                     rules->limits.values);
  writer w;
  char place[PLACE_TEXT];
  int number, top = lua_gettop(L);
  writer_init(&w, L, rules, out, hole);
  if (write_values(&w, first, count, &number)) return commit(&w);
  if (hole) *hole = (struct hole){0};
  if (w.starts_over) {
    take_back(&w, top);
    return codec_write(L, first, count, what, rules, out, why);
  }
  snprintf(place, sizeof place, "%s %d", what, number);
  return roll_back(&w, top, place, why);
}

lp_status codec_write(lua_State *L, int first, int count, const char *what, const codec *rules,
                      buffer *out, fault *why) {
  return codec_write_around(L, first, count, what, rules, out, NULL, why);
}

lp_status codec_write_value(lua_State *L, int index, const char *what, const codec *rules,
                            buffer *out, fault *why) {
  writer w;
  int top = lua_gettop(L);
  writer_init(&w, L, rules, out, NULL);
  if (write_value(&w, lua_absindex(L, index)) && within_limit(&w)) return commit(&w);
  return roll_back(&w, top, what, why);
}
