/* The limit of an interpreter's memory: growth beyond it is refused, shrinking never is, and the
 * count is exact at any time. The interpreter is asked directly, without the rpc layer. */
#include <lauxlib.h>

#include "harness.h"

static harness at;
static node *one;

/* What Lua itself counts, to the byte. */
static size_t counted(lua_State *L) {
  return (size_t)lua_gc(L, LUA_GCCOUNT) * 1024 + (size_t)lua_gc(L, LUA_GCCOUNTB);
}

static size_t told(void) {
  return atomic_load(&one->memory_bytes);
}

static void begin(size_t limit) {
  static const node_hooks hooks;
  harness_begin(&at);
  one = node_new(at.loop, "limited", "limited", &hooks, limit, NULL);
  CHECK(one);
  lua_gc(one->L, LUA_GCCOLLECT);
}

static void end(void) {
  node_abort(one);
  harness_end(&at);
}

static int run_text(lua_State *L) {
  if (luaL_loadstring(L, lua_touserdata(L, 1)) != LUA_OK) return lua_error(L);
  lua_call(L, 0, 0);
  return 0;
}

static bool run(const char *text, fault *why) {
  return node_enter(one, run_text, (void *)text, why);
}

static void the_count_is_exact(void) {
  begin(0);
  CHECK(told() == counted(one->L));
  CHECK(run("kept = {} for i = 1, 1000 do kept[i] = ('x'):rep(i) end", NULL));
  CHECK(told() == counted(one->L));
  size_t full = told();
  CHECK(run("kept = nil collectgarbage()", NULL));
  CHECK(told() == counted(one->L));
  CHECK(told() < full - 400000);
  end();
}

static void growth_of_a_table_is_refused(void) {
  fault why;
  begin(4 << 20);
  CHECK(!run("kept = {} for i = 1, 1e9 do kept[i] = i end", &why));
  CHECK(why.status == LP_RESOURCE_EXHAUSTED);
  CHECK(told() <= 4 << 20 && told() == counted(one->L));
  CHECK(run("kept = nil collectgarbage() for i = 1, 1000 do local t = {i} end", NULL));
  CHECK(told() == counted(one->L));
  end();
}

static void growth_of_a_string_is_refused(void) {
  fault why;
  begin(4 << 20);
  CHECK(!run("local s = 'x' while true do s = s .. s end", &why));
  CHECK(why.status == LP_RESOURCE_EXHAUSTED);
  CHECK(!run("return ('x'):rep(1 << 30)", &why));
  CHECK(why.status == LP_RESOURCE_EXHAUSTED);
  CHECK(run("collectgarbage() assert(#('x'):rep(1 << 20) == 1 << 20)", NULL));
  CHECK(told() == counted(one->L));
  end();
}

static void what_is_over_the_limit_may_shrink(void) {
  begin(0);
  CHECK(run("kept = {} for i = 1, 20000 do kept[i] = {i} end", NULL));
  size_t full = told();
  one->memory_limit = full / 2;
  fault why;
  CHECK(!run("return 1", &why) && why.status == LP_RESOURCE_EXHAUSTED); /* it would need memory */
  lua_pushnil(one->L);
  lua_setglobal(one->L, "kept");
  lua_gc(one->L, LUA_GCCOLLECT); /* frees, and shrinks tables */
  CHECK(told() < full);
  CHECK(told() == counted(one->L));
  lua_gc(one->L, LUA_GCCOLLECT);
  CHECK(told() < full / 2);
  CHECK(run("for i = 1, 100 do assert(#('y'):rep(i) == i) end", NULL));
  end();
}

int main(void) {
  RUN(the_count_is_exact);
  RUN(growth_of_a_table_is_refused);
  RUN(growth_of_a_string_is_refused);
  RUN(what_is_over_the_limit_may_shrink);
  return TEST_END();
}
