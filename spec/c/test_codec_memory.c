/* The codec when memory ends, at any point. */
#include <sys/wait.h>
#include <unistd.h>

#include "codec_state.h"

static int scenario(lua_State *state) {
  luaL_openlibs(state);
  codec_open(state);
  lua_setglobal(state, "lp");
  if (luaL_dostring(state,
                    "local P = {} P.__index = P lp.register('P', P, {pack = function(p)"
                    " return p.x end, unpack = function(x) return setmetatable({x = x}, P) end})"
                    " local s = lp.pack(1, 'text', {1, 2, {a = ('b'):rep(1000)}}, lp.map{},"
                    " setmetatable({x = {}}, P)) for i = 1, 3 do s = lp.pack(lp.unpack(s)) end"))
    lua_error(state);
  return 0;
}

/* Lua tries again after a collection; so here it gets nothing from the n-th request on. */
static void test_memory_that_ends_at_any_point_is_an_error(void) {
  int status = LUA_ERRMEM, n;
  for (n = 1; n < 10000 && status != LUA_OK; n++) {
    requests_left = n;
    lua_State *state = lua_newstate(allocate, NULL);
    if (!state) continue;
    lua_pushcfunction(state, scenario);
    status = lua_pcall(state, 0, 0, 0);
    CHECK(status == LUA_OK || lua_isstring(state, -1));
    requests_left = -1;
    lua_close(state);
  }
  requests_left = -1;
  CHECK(n > 100 && status == LUA_OK);
}

#ifdef LP_FAULTS
enum { WHOLE = 0, FAILED_CLEANLY = 3 };

/* The scenario in a process of its own, in which the n-th allocation fails. */
static int run_with_fault(int n) {
  pid_t child = fork();
  if (child == 0) {
    char number[16];
    snprintf(number, sizeof number, "%d", n);
    setenv("LP_FAULT_ALLOC", number, 1);
    lua_State *state = lua_newstate(allocate, NULL);
    if (!state) _exit(FAILED_CLEANLY);
    lua_pushcfunction(state, scenario);
    int status = lua_pcall(state, 0, 0, 0);
    lua_close(state);
    _exit(status == LUA_OK ? WHOLE : FAILED_CLEANLY);
  }
  int status;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* One failed request of Lua's is made good by a collection and a second one, so this
 * sees the buffers' requests fail and collections at every point. */
static void test_every_failed_allocation_is_an_error(void) {
  int failed = 0;
  for (int n = 1; n <= 1200; n++) {
    int result = run_with_fault(n);
    CHECK(result == WHOLE || result == FAILED_CLEANLY);
    failed += result == FAILED_CLEANLY;
  }
  CHECK(failed > 0);
}
#endif

int main(void) {
#ifdef LP_FAULTS
  RUN(test_every_failed_allocation_is_an_error);
#endif
  RUN(test_memory_that_ends_at_any_point_is_an_error);
  return TEST_END();
}
