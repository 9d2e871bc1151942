/* See fuzz.h. The first byte chooses the rules: 1 a peer without hello, 2 a single value instead of
 * an array, 4 tight limits. */
#include <lauxlib.h>
#include <lualib.h>
#include <string.h>

#include "base/memory.h"
#include "fuzz.h"
#include "wire/codec.h"

enum {
  RULE_PLAIN = 1,
  RULE_VALUE = 2,
  RULE_TIGHT = 4,
  /* The dearest thing a byte can ask for is an empty table, with its place in another. */
  BYTES_PER_BYTE = 160,
  BYTES_ALWAYS = 128 << 10
};

static lua_State *state;
static buffer written;

static void *allocate(void *unused, void *block, size_t old, size_t bytes) {
  (void)unused, (void)old;
  if (bytes) return mem_realloc(block, bytes);
  mem_free(block);
  return NULL;
}

static const char setup[] =
    "local Point = {} Point.__index = Point "
    "core.register('point', Point, {pack = function(p) return p.x, p.y end, "
    "unpack = function(x, y, ...) if x == 'bad' then error 'refused' end "
    "return setmetatable({x = x, y = y}, Point) end})";

static void open_state(void) {
  state = lua_newstate(allocate, NULL);
  FUZZ_CHECK(state);
  luaL_openlibs(state);
  codec_open(state);
  lua_setglobal(state, "core");
  FUZZ_CHECK(luaL_dostring(state, setup) == LUA_OK);
}

static bool same(lua_State *L, int a, int b);

/* Every field of the table at `a` is in that at `b`, save those whose key is a table: which one
 * that would be nobody can say. */
static bool contains(lua_State *L, int a, int b) {
  for (lua_pushnil(L); lua_next(L, a);) {
    if (lua_type(L, -2) == LUA_TTABLE) {
      lua_pop(L, 1);
      continue;
    }
    lua_pushvalue(L, -2);
    lua_rawget(L, b);
    int top = lua_gettop(L);
    if (!same(L, top - 1, top)) return false;
    lua_pop(L, 2);
  }
  return true;
}

static int fields(lua_State *L, int index) {
  int count = 0;
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) count++;
  return count;
}

static const void *mark_of(lua_State *L, int index) {
  if (!lua_getmetatable(L, index)) return NULL;
  const void *mark = lua_topointer(L, -1);
  lua_pop(L, 1);
  return mark;
}

static bool same_number(lua_State *L, int a, int b) {
  if (lua_isinteger(L, a) != lua_isinteger(L, b)) return false;
  if (lua_isinteger(L, a)) return lua_tointeger(L, a) == lua_tointeger(L, b);
  lua_Number x = lua_tonumber(L, a), y = lua_tonumber(L, b);
  return memcmp(&x, &y, sizeof x) == 0;
}

static bool same(lua_State *L, int a, int b) {
  luaL_checkstack(L, 8, NULL);
  if (lua_type(L, a) != lua_type(L, b)) return false;
  if (lua_type(L, a) == LUA_TNUMBER) return same_number(L, a, b);
  if (lua_type(L, a) != LUA_TTABLE) return lua_rawequal(L, a, b);
  int top = lua_gettop(L);
  bool equal = mark_of(L, a) == mark_of(L, b) && fields(L, a) == fields(L, b) && contains(L, a, b);
  lua_settop(L, top);
  return equal;
}

typedef struct job {
  const uint8_t *data;
  size_t length;
  codec rules;
  bool value; /* one value, no array around it */
} job;

static lp_status read_values(lua_State *L, const job *job, const uint8_t *data, size_t length,
                             int *count) {
  fault why = {0};
  int top = lua_gettop(L);
  *count = 1;
  lp_status status = job->value ? codec_read_value(L, data, length, &job->rules, &why)
                                : codec_read(L, data, length, &job->rules, count, &why);
  FUZZ_CHECK(status == LP_OK || (lua_gettop(L) == top && why.text[0]));
  FUZZ_CHECK(status != LP_OK || lua_gettop(L) == top + *count);
  return status;
}

/* What was read can be written, and reads as the same. */
static int round_trip(lua_State *L) {
  job *job = lua_touserdata(L, 1);
  int count, again;
  fault why;
  size_t before = fuzz_memory_mark();
  lp_status status = read_values(L, job, job->data, job->length, &count);
  FUZZ_CHECK(fuzz_memory_peak() - before < job->length * BYTES_PER_BYTE + BYTES_ALWAYS);
  if (status != LP_OK || job->rules.plain) return 0;
  written.length = 0;
  job->rules.limits = codec_default_limits; /* a float of 4 bytes is written as one of 8 */
  status = job->value ? codec_write_value(L, 2, "value", &job->rules, &written, &why)
                      : codec_write(L, 2, count, "value", &job->rules, &written, &why);
  if (status != LP_OK) fprintf(stderr, "%s\n", why.text);
  FUZZ_CHECK(status == LP_OK);
  status = read_values(L, job, written.data, written.length, &again);
  FUZZ_CHECK(status == LP_OK && again == count);
  for (int i = 0; i < count; i++) FUZZ_CHECK(same(L, 2 + i, 2 + count + i));
  return 0;
}

void fuzz_decode(const uint8_t *data, size_t length) {
  if (length < 1) return;
  if (!state) open_state();
  uint8_t choice = data[0];
  job job = {.data = data + 1, .length = length - 1, .value = choice & RULE_VALUE};
  job.rules.limits = codec_default_limits;
  job.rules.plain = choice & RULE_PLAIN;
  if (choice & RULE_TIGHT)
    job.rules.limits = (codec_limits){
        .message_bytes = 4096, .decoded_bytes = 8192, .values = 16, .depth = 8, .other_keys = 16};
  lua_settop(state, 0);
  lua_pushcfunction(state, round_trip);
  lua_pushlightuserdata(state, &job);
  /* An unpack function may raise; nothing else does while there is memory. */
  if (lua_pcall(state, 1, 0, 0) != LUA_OK)
    FUZZ_CHECK(strstr(luaL_tolstring(state, -1, NULL), "refused"));
  lua_settop(state, 0);
  lua_gc(state, LUA_GCCOLLECT);
}
