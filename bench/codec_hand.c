/* Floor of the codec: the bytes of one known shape, written by code that knows it. It
 * reads the same fields from the Lua stack and makes the same string as core.pack, but
 * asks no value for its type and keeps no path, depth or limit.
 *
 *   codec_hand [--shape small|map|doubles|nested] [--rounds N] [--pin CPU] */
#define _GNU_SOURCE
#include "floor.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

static unsigned char out[65536];
static size_t used;

static void put(unsigned byte) {
  out[used++] = (unsigned char)byte;
}

static void put_u16(unsigned tag, unsigned value) {
  put(tag);
  put(value >> 8);
  put(value);
}

static void put_string(lua_State *L, int index) {
  size_t length;
  const char *text = lua_tolstring(L, index, &length);
  if (length > 31) put(0xd9);
  put(length > 31 ? (unsigned)length : 0xa0 | (unsigned)length);
  memcpy(out + used, text, length);
  used += length;
}

static void put_integer(lua_State *L, int index) {
  lua_Integer value = lua_tointeger(L, index);
  if (value < 128) return put((unsigned)value);
  put_u16(0xcd, (unsigned)value);
}

static void put_double(lua_State *L, int index) {
  lua_Number value = lua_tonumber(L, index);
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  bits = __builtin_bswap64(bits);
  put(0xcb);
  memcpy(out + used, &bits, sizeof bits);
  used += sizeof bits;
}

/* Puts element `i` of the table on top with `fn`. */
static void element(lua_State *L, int i, void (*fn)(lua_State *L, int index)) {
  lua_rawgeti(L, -1, i);
  fn(L, -1);
  lua_pop(L, 1);
}

static void put_boolean(lua_State *L, int index) {
  put(lua_toboolean(L, index) ? 0xc3 : 0xc2);
}

static void small_arguments(lua_State *L, int index) {
  (void)index;
  put(0x92);
  element(L, 1, put_integer);
  element(L, 2, put_string);
}

static void put_small(lua_State *L) {
  put(0x93);
  element(L, 1, put_integer);
  element(L, 2, put_string);
  element(L, 3, small_arguments);
}

static void put_map(lua_State *L) {
  put(0x85);
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
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
  put_u16(0xdc, 1000);
  for (int i = 1; i <= 1000; i++) element(L, i, put_double);
}

static void leaf(lua_State *L, int index) {
  (void)index;
  put(0x92);
  element(L, 1, put_double);
  element(L, 2, put_string);
}

static void one_integer(lua_State *L, int index) {
  (void)index;
  put(0x91);
  element(L, 1, put_integer);
}

static void one_boolean(lua_State *L, int index) {
  (void)index;
  put(0x91);
  element(L, 1, put_boolean);
}

static void pair_of_lists(lua_State *L, int index) {
  (void)index;
  put(0x92);
  element(L, 1, one_integer);
  element(L, 2, one_boolean);
}

static void branch(lua_State *L, int index) {
  (void)index;
  put(0x93);
  element(L, 1, put_integer);
  element(L, 2, leaf);
  element(L, 3, pair_of_lists);
}

static void put_nested(lua_State *L) {
  put(0x9a);
  for (int i = 1; i <= 10; i++) element(L, i, branch);
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
  static const char *const known[] = {"--shape", NULL};
  floor_args args;
  floor_init(&args, argc, argv, "codec_hand", 200000, known);
  floor_pin(&args, 0);
  lua_State *L = luaL_newstate();
  if (!L) floor_die("lua");
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
