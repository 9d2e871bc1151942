/* Floor of a node: a bare Lua state with its libraries, made and kept. The line adds what
 * Lua counts for one, in KiB; opening and closing are timed together.
 *
 *   lua_state [--rounds N] [--pin CPU] */
#define _GNU_SOURCE
#include "floor.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

static double make(lua_State **states, long count) {
  double kib = 0;
  for (long i = 0; i < count; i++) {
    states[i] = luaL_newstate();
    if (!states[i]) floor_die("luaL_newstate");
    luaL_openlibs(states[i]);
  }
  kib = lua_gc(states[0], LUA_GCCOUNT) + lua_gc(states[0], LUA_GCCOUNTB) / 1024.0;
  for (long i = 0; i < count; i++) lua_close(states[i]);
  return kib;
}

int main(int argc, char **argv) {
  floor_args args;
  floor_init(&args, argc, argv, "lua_state", 1000, NULL);
  floor_pin(&args, 0);
  lua_State **states = calloc((size_t)args.rounds, sizeof *states);
  if (!states) floor_die("calloc");
  int64_t start = floor_now();
  double kib = make(states, args.rounds);
  floor_begin(&args, floor_now() - start, args.rounds);
  printf(",\"kib\":%.1f", kib);
  floor_end();
  free(states);
  return 0;
}
