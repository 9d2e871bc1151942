/* See seconds.h. */
#include "runtime/seconds.h"

#include <lauxlib.h>
#include <math.h>

#include "base/clock.h"

int64_t seconds_due(lua_State *L, int index) {
  if (lua_isnoneornil(L, index)) return CLOCK_NEVER;
  lua_Number seconds = luaL_checknumber(L, index);
  if (isnan(seconds)) luaL_argerror(L, index, "seconds expected, got nan");
  return clock_after(seconds);
}
