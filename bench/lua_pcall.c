/* Floor of entering a handler: lua_pcall of a Lua function of one argument that returns
 * it, argument and result included.
 *
 *   lua_pcall [--rounds N] [--pin CPU] */
#define _GNU_SOURCE
#include "floor.h"

#include <lauxlib.h>
#include <lua.h>

static void call(lua_State *L, long rounds) {
  for (long i = 0; i < rounds; i++) {
    lua_pushvalue(L, 1);
    lua_pushinteger(L, i);
    if (lua_pcall(L, 1, 1, 0) || lua_tointeger(L, -1) != i) floor_die("lua_pcall");
    lua_pop(L, 1);
  }
}

int main(int argc, char **argv) {
  floor_args args;
  floor_init(&args, argc, argv, "lua_pcall", 10000000, NULL);
  floor_pin(&args, 0);
  lua_State *L = luaL_newstate();
  if (!L || luaL_dostring(L, "return function(x) return x end")) floor_die("lua");
  call(L, args.rounds / 10 + 1); /* warms up */
  int64_t start = floor_now();
  call(L, args.rounds);
  floor_begin(&args, floor_now() - start, args.rounds);
  floor_end();
  lua_close(L);
  return 0;
}
