/* Times that Lua gives in seconds, as absolute nanoseconds of the engine's clock. */
#ifndef LP_RUNTIME_SECONDS_H
#define LP_RUNTIME_SECONDS_H

#include <lua.h>
#include <stdint.h>

/* When the seconds at `index` from now are over; nothing or nil: never; below 0: now, so that what
 * is left of a time may be waited for without a look whether anything is. What is no number (NaN,
 * too) is a bad argument. */
int64_t seconds_due(lua_State *L, int index);

#endif
