/* Lua's string patterns with a bound: find, match, gmatch, gsub and rep for scripts that are not
 * trusted. A pattern such as ("a*"):rep(30) .. "b" takes longer than anybody lives, inside a C
 * function that nothing can interrupt; here it raises after a number of steps. */
#ifndef LP_RUNTIME_PATTERNS_H
#define LP_RUNTIME_PATTERNS_H

#include <lua.h>

/* Pushes a table with the five functions. `steps`: comparisons one call may take; `bytes`: the
 * longest string rep and gsub may make. */
void patterns_push(lua_State *L, lua_Integer steps, lua_Integer bytes);

#endif
