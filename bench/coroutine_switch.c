/* Floor of a task: --mode switch is one resume and one yield of a coroutine that runs;
 * pooled runs a function to its end in a coroutine that was used before; created does so
 * in a new one each time, collection included.
 *
 *   coroutine_switch [--mode switch|pooled|created] [--rounds N] [--pin CPU] */
#define _GNU_SOURCE
#include "floor.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

enum { FUNCTION = 1 }; /* its place on the main stack, all the time */

static void resume(lua_State *co, lua_State *from, int expected) {
  int results;
  if (lua_resume(co, from, 0, &results) != expected) floor_die("lua_resume");
  lua_pop(co, results);
}

static void start(lua_State *L, lua_State *co) {
  lua_pushvalue(L, FUNCTION);
  lua_xmove(L, co, 1);
}

static void run_switch(lua_State *L, long rounds) {
  lua_State *co = lua_newthread(L);
  start(L, co);
  for (long i = 0; i < rounds; i++) resume(co, L, LUA_YIELD);
  lua_pop(L, 1);
}

static void run_pooled(lua_State *L, long rounds) {
  lua_State *co = lua_newthread(L);
  for (long i = 0; i < rounds; i++) {
    start(L, co);
    resume(co, L, LUA_OK);
  }
  lua_pop(L, 1);
}

static void run_created(lua_State *L, long rounds) {
  for (long i = 0; i < rounds; i++) {
    lua_State *co = lua_newthread(L);
    start(L, co);
    resume(co, L, LUA_OK);
    lua_pop(L, 1);
  }
}

typedef struct mode {
  const char *name, *source;
  void (*run)(lua_State *L, long rounds);
} mode;

static const mode *find_mode(const char *name) {
  static const mode modes[] = {
      {"switch", "local yield = coroutine.yield; return function() while true do yield() end end",
       run_switch},
      {"pooled", "return function() end", run_pooled},
      {"created", "return function() end", run_created},
  };
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
    if (!strcmp(name, modes[i].name)) return &modes[i];
  fprintf(stderr, "coroutine_switch: --mode takes switch, pooled or created\n");
  exit(2);
}

int main(int argc, char **argv) {
  static const char *const known[] = {"--mode", NULL};
  floor_args args;
  floor_init(&args, argc, argv, "coroutine_switch", 5000000, known);
  const mode *chosen = find_mode(floor_option(&args, "--mode", "switch"));
  floor_pin(&args, 0);
  lua_State *L = luaL_newstate();
  if (!L) floor_die("lua");
  luaL_openlibs(L);
  if (luaL_dostring(L, chosen->source)) floor_die("lua");
  chosen->run(L, args.rounds / 10 + 1); /* warms up */
  int64_t begin = floor_now();
  chosen->run(L, args.rounds);
  floor_begin(&args, floor_now() - begin, args.rounds);
  printf(",\"mode\":\"%s\"", chosen->name);
  floor_end();
  lua_close(L);
  return 0;
}
