/* What the codec's tests share: a Lua state whose allocator can be made to fail, and checks
 * of what is written and read. */
#ifndef LP_SPEC_CODEC_STATE_H
#define LP_SPEC_CODEC_STATE_H
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdlib.h>

#include "base/memory.h"
#include "test.h"
#include "wire/codec.h"

/* A class for chunks: the local Point. */
#define POINT_CLASS                                                                              \
  "local Point = {} Point.__index = Point "                                                      \
  "Point.__add = function(a, b) return setmetatable({x = a.x + b.x, y = a.y + b.y}, Point) end " \
  "lp.register('Point', Point, {pack = function(p) return p.x, p.y end,"                         \
  " unpack = function(x, y) return setmetatable({x = x, y = y}, Point) end}) "

static lua_State *L;
static codec rules;
static fault why;

/* Requests that states may still make before every further one fails. */
static long requests_left = -1;

static inline void *allocate(void *unused, void *block, size_t old, size_t bytes) {
  (void)unused, (void)old;
  if (bytes && requests_left >= 0 && requests_left-- == 0) {
    requests_left = 0;
    return NULL;
  }
  if (bytes) return mem_realloc(block, bytes);
  mem_free(block);
  return NULL;
}

static inline void open_state(void) {
  L = lua_newstate(allocate, NULL);
  luaL_openlibs(L);
  codec_open(L);
  lua_setglobal(L, "lp");
  rules = (codec){.limits = codec_default_limits};
}

static inline void close_state(void) {
  lua_close(L);
}

/* Pushes the results of a chunk on an empty stack; their number. */
static inline int run(const char *code) {
  lua_settop(L, 0);
  if (luaL_dostring(L, code) != LUA_OK) {
    fprintf(stderr, "in the chunk %s: %s\n", code, lua_tostring(L, -1));
    exit(1);
  }
  return lua_gettop(L);
}

static inline lp_status encode(const char *code, buffer *out) {
  int count = run(code);
  why.text[0] = 0;
  lp_status status = codec_write(L, 1, count, "argument", &rules, out, &why);
  if (lua_gettop(L) != count) fprintf(stderr, "the stack has changed: %s\n", code);
  return status;
}

static inline size_t from_hex(const char *hex, uint8_t *bytes) {
  size_t length = 0;
  for (unsigned value; *hex; hex += 2) {
    while (*hex == ' ') hex++;
    if (sscanf(hex, "%2x", &value) != 1) break;
    bytes[length++] = (uint8_t)value;
  }
  return length;
}

static inline bool same_bytes(const buffer *out, const char *hex) {
  uint8_t expected[512];
  size_t length = from_hex(hex, expected);
  bool same = out->length == length && !memcmp(out->data, expected, length);
  for (size_t i = 0; !same && i < out->length; i++) fprintf(stderr, "%02x ", out->data[i]);
  return same;
}

/* The chunk's values have these bytes (without the array header of the message), and
 * the bytes give the values back. */
static inline bool is_written(const char *code, const char *hex) {
  buffer out = {0};
  char whole[1100];
  bool well = encode(code, &out) == LP_OK;
  snprintf(whole, sizeof whole, "%02x %s", 0x90 | (unsigned)lua_gettop(L), hex);
  well = well && same_bytes(&out, whole);
  if (!well) fprintf(stderr, "%s: %s\n", code, why.text);
  buffer_fini(&out);
  return well;
}

/* The chunk's values are refused with exactly these words. */
static inline bool is_refused(const char *code, const char *text) {
  buffer out = {0};
  buffer_append(&out, "before", 6);
  bool well = encode(code, &out) != LP_OK && !strcmp(why.text, text);
  well = well && out.length == 6 && !memcmp(out.data, "before", 6);
  if (!well) fprintf(stderr, "%s: got \"%s\"\n", code, why.text);
  buffer_fini(&out);
  return well;
}

static inline lp_status decode(const uint8_t *bytes, size_t length, int *count) {
  /* A copy of the exact size, so that the sanitizer sees a read beyond it. */
  uint8_t *copy = malloc(length ? length : 1);
  memcpy(copy, bytes, length);
  lua_settop(L, 0);
  why = (fault){0};
  lp_status status = codec_read(L, copy, length, &rules, count, &why);
  free(copy);
  return status;
}

/* The bytes (a whole message) are read as values for which `check`, a Lua function's
 * body with them in `...`, returns true. */
static inline bool is_read(const char *hex, const char *check) {
  uint8_t bytes[512];
  int count;
  size_t length = from_hex(hex, bytes);
  if (decode(bytes, length, &count) != LP_OK) {
    fprintf(stderr, "%s: %s\n", hex, why.text);
    return false;
  }
  if (luaL_loadstring(L, check) != LUA_OK) exit(1);
  lua_insert(L, 1);
  if (lua_pcall(L, count, 1, 0) != LUA_OK) fprintf(stderr, "%s\n", lua_tostring(L, -1));
  return lua_isboolean(L, -1) && lua_toboolean(L, -1);
}

static inline bool is_bad(const char *hex, const char *text) {
  uint8_t bytes[512];
  int count;
  size_t length = from_hex(hex, bytes);
  bool well = decode(bytes, length, &count) != LP_OK && !strcmp(why.text, text);
  if (!well) fprintf(stderr, "%s: got \"%s\"\n", hex, why.text);
  return well && lua_gettop(L) == 0 && count == 0;
}

/* Each test in a fresh state. */
#define RUN_FRESH(test) (open_state(), ({ RUN(test); }), close_state())
#endif
