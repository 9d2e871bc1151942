/* The table of embedded Lua modules: sorted, complete, and loadable by our Lua. */
#include <lauxlib.h>
#include <lua.h>

#include "api/embedded.h"
#include "test.h"

static void finds_every_module_and_no_other(void) {
  for (unsigned i = 0; i < embedded_count; i++)
    CHECK(embedded_find(embedded_modules[i].name) == &embedded_modules[i]);
  CHECK(embedded_find("") == NULL);
  CHECK(embedded_find("lp.") == NULL);
  CHECK(embedded_find("zzz") == NULL);
}

static void is_sorted_and_ends_with_null(void) {
  for (unsigned i = 1; i < embedded_count; i++)
    CHECK(strcmp(embedded_modules[i - 1].name, embedded_modules[i].name) < 0);
  CHECK(embedded_modules[embedded_count].name == NULL);
}

static void chunks_load_and_know_their_file(void) {
  lua_State *L = luaL_newstate();
  for (unsigned i = 0; i < embedded_count; i++) {
    const embedded_module *module = &embedded_modules[i];
    lua_Debug info;
    CHECK(luaL_loadbufferx(L, (const char *)module->code, module->size, "?", "b") == LUA_OK);
    CHECK(lua_getinfo(L, ">S", &info) && !strncmp(info.source, "@lp/", 4));
    lua_settop(L, 0);
  }
  lua_close(L);
}

int main(void) {
  RUN(finds_every_module_and_no_other);
  RUN(is_sorted_and_ends_with_null);
  RUN(chunks_load_and_know_their_file);
  return TEST_END();
}
