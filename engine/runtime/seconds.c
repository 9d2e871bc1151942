/* See seconds.h. */
#include "runtime/seconds.h"

#include <lauxlib.h>

#include "base/clock.h"

int64_t seconds_due(lua_State *L, int index) {
  if (lua_isnoneornil(L, index)) return CLOCK_NEVER;
  lua_Number seconds = luaL_checknumber(L, index);
  if (!(seconds >= 0)) {
    const char *got = lua_pushfstring(L, "seconds, 0 or more, expected, got %f", seconds);
    luaL_argerror(L, index, got);
  }
  return clock_after(seconds);
}
