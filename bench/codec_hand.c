/* Floor of the codec: the bytes of one known shape, written by hand.
 *
 * It makes the same string as core.pack, from the same value, through the same functions of
 * Lua's interface. With --trusting it takes the shape for granted: it fetches the fields it
 * knows, and what else a table may hold it does not see. That no codec can do: one that is
 * given any value must meet every key, which only lua_next offers, and ask each key and each
 * value for its type before it takes it. This much the floor does by default, and ends where
 * something is not of its shape. What it has not: a value's way chosen while running, bounds
 * of any kind, cycles, paths for errors, text told from bytes, classes, and a buffer that
 * grows.
 *
 *   codec_hand [--shape small|map|doubles|nested] [--trusting yes] [--rounds N] [--pin CPU] */
#define _GNU_SOURCE
#include "floor.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdbool.h>

static unsigned char out[65536];
static size_t used;

static inline void put(unsigned byte) {
  out[used++] = (unsigned char)byte;
}

static inline void put_u16(unsigned tag, unsigned value) {
  put(tag);
  put(value >> 8);
  put(value);
}

static void other_shape(void) {
  errno = 0;
  floor_die("the value is not of the shape");
}

/* ---- values at an index, which the caller knows the type of ---------------------- */

static inline void put_string(lua_State *L, int index) {
  size_t length;
  const char *text = lua_tolstring(L, index, &length);
  if (length > 31) put(0xd9);
  put(length > 31 ? (unsigned)length : 0xa0 | (unsigned)length);
  memcpy(out + used, text, length);
  used += length;
}

static inline void put_integer(lua_State *L, int index) {
  lua_Integer value = lua_tointeger(L, index);
  if (value < 128)
    put((unsigned)value);
  else
    put_u16(0xcd, (unsigned)value);
}

static inline void put_double(lua_State *L, int index) {
  lua_Number value = lua_tonumber(L, index);
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  bits = __builtin_bswap64(bits);
  put(0xcb);
  memcpy(out + used, &bits, sizeof bits);
  used += sizeof bits;
}

static inline void put_boolean(lua_State *L, int index) {
  put(lua_toboolean(L, index) ? 0xc3 : 0xc2);
}

/* ---- the same, asked for their type first ----------------------------------------- */

static inline void take_string(lua_State *L) {
  if (lua_type(L, -1) != LUA_TSTRING) other_shape();
  put_string(L, -1);
}

static inline void take_integer(lua_State *L) {
  if (lua_type(L, -1) != LUA_TNUMBER || !lua_isinteger(L, -1)) other_shape();
  put_integer(L, -1);
}

static inline void take_double(lua_State *L) {
  if (lua_type(L, -1) != LUA_TNUMBER || lua_isinteger(L, -1)) other_shape();
  put_double(L, -1);
}

static inline void take_boolean(lua_State *L) {
  if (lua_type(L, -1) != LUA_TBOOLEAN) other_shape();
  put_boolean(L, -1);
}

/* ---- the fields of the table on top ------------------------------------------------ */

static bool trusting;

static inline void open_list(lua_State *L) {
  if (trusting) return;
  if (lua_type(L, -1) != LUA_TTABLE || lua_getmetatable(L, -1)) other_shape();
  lua_pushnil(L);
}

/* Leaves element `i` on top of the stack. */
static inline void enter(lua_State *L, int i) {
  if (trusting)
    lua_rawgeti(L, -1, i);
  else if (!lua_next(L, -2) || !lua_isinteger(L, -2) || lua_tointeger(L, -2) != i)
    other_shape();
}

static inline void leave(lua_State *L) {
  lua_pop(L, 1);
}

static inline void close_list(lua_State *L) {
  if (!trusting && lua_next(L, -2)) other_shape();
}

#define FIELD(i, kind)   \
  do {                   \
    enter(L, i);         \
    if (trusting)        \
      put_##kind(L, -1); \
    else                 \
      take_##kind(L);    \
    leave(L);            \
  } while (0)

#define LIST(count, ...) \
  do {                   \
    open_list(L);        \
    put(0x90 | (count)); \
    __VA_ARGS__          \
    close_list(L);       \
  } while (0)

/* ---- shapes, on top of the stack --------------------------------------------------- */

static void put_small(lua_State *L) {
  LIST(3, FIELD(1, integer); FIELD(2, string); enter(L, 3);
       LIST(2, FIELD(1, integer); FIELD(2, string);); leave(L););
}

static void put_map(lua_State *L) {
  if (!trusting && lua_getmetatable(L, -1)) other_shape();
  put(0x85);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    if (!trusting && lua_type(L, -2) != LUA_TSTRING) other_shape();
    put_string(L, -2);
    int type = lua_type(L, -1);
    if (type == LUA_TSTRING)
      put_string(L, -1);
    else if (type == LUA_TBOOLEAN)
      put_boolean(L, -1);
    else if (lua_isinteger(L, -1))
      put_integer(L, -1);
    else
      put_double(L, -1);
  }
}

static void put_doubles(lua_State *L) {
  open_list(L);
  put_u16(0xdc, 1000);
  for (int i = 1; i <= 1000; i++) FIELD(i, double);
  close_list(L);
}

static void put_branch(lua_State *L) {
  LIST(3, FIELD(1, integer); enter(L, 2); LIST(2, FIELD(1, double); FIELD(2, string);); leave(L);
       enter(L, 3); LIST(2, enter(L, 1); LIST(1, FIELD(1, integer);); leave(L); enter(L, 2);
                         LIST(1, FIELD(1, boolean);); leave(L););
       leave(L););
}

static void put_nested(lua_State *L) {
  open_list(L);
  put(0x9a);
  for (int i = 1; i <= 10; i++) {
    enter(L, i);
    put_branch(L);
    leave(L);
  }
  close_list(L);
}

typedef struct shape {
  const char *name, *source;
  void (*write)(lua_State *L);
} shape;

static const shape shapes[] = {
    {"small", "return {1, 'echo', {42, 'thirty-two bytes of text, or so.'}}", put_small},
    {"map",
     "return {id = 4711, name = 'worker', score = 0.75, active = true, node = 'evaluator/3'}",
     put_map},
    {"doubles", "local t = {} for i = 1, 1000 do t[i] = i + 0.5 end return t", put_doubles},
    {"nested",
     "local t = {} for i = 1, 10 do t[i] = {i, {i + 0.5, 'leaf'}, {{i * 1000}, {false}}} end "
     "return t",
     put_nested},
};

static const shape *chosen;

static int pack(lua_State *L) {
  used = 0;
  chosen->write(L);
  lua_pushlstring(L, (const char *)out, used);
  return 1;
}

/* The loop is Lua's, as it is in programs/bench/codec.lua. */
static void run(lua_State *L, long rounds) {
  lua_getglobal(L, "run");
  lua_pushinteger(L, rounds);
  if (lua_pcall(L, 1, 0, 0)) floor_die(lua_tostring(L, -1));
}

static void open_shape(lua_State *L, const char *name) {
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    if (!strcmp(name, shapes[i].name)) chosen = &shapes[i];
  if (!chosen) {
    fprintf(stderr, "codec_hand: --shape takes small, map, doubles or nested\n");
    exit(2);
  }
  lua_pushcfunction(L, pack);
  lua_setglobal(L, "pack");
  if (luaL_dostring(L, chosen->source)) floor_die("lua");
  lua_setglobal(L, "value");
  if (luaL_dostring(L,
                    "local pack, value = pack, value "
                    "function run(rounds) for _ = 1, rounds do pack(value) end end"))
    floor_die("lua");
}

int main(int argc, char **argv) {
  static const char *const known[] = {"--shape", "--trusting", NULL};
  floor_args args;
  floor_init(&args, argc, argv, "codec_hand", 200000, known);
  floor_pin(&args, 0);
  lua_State *L = luaL_newstate();
  if (!L) floor_die("lua");
  trusting = !strcmp(floor_option(&args, "--trusting", "no"), "yes");
  open_shape(L, floor_option(&args, "--shape", "small"));
  run(L, args.rounds / 10 + 1); /* warms up */
  int64_t start = floor_now();
  run(L, args.rounds);
  floor_begin(&args, floor_now() - start, args.rounds);
  printf(",\"shape\":\"%s\",\"bytes\":%zu", chosen->name, used);
  floor_end();
  lua_close(L);
  return 0;
}
