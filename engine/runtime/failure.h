/* Errors as Lua sees them: lp.Error, a table with a metatable of the engine's. C gives it
 * its fields (code, message, traceback, node, method, data, chain); lua/lp/error.lua gives
 * the metatable its methods. */
#ifndef LP_RUNTIME_FAILURE_H
#define LP_RUNTIME_FAILURE_H

#include <lua.h>
#include <stdbool.h>

#include "base/status.h"

/* Creates the metatable in a fresh state. May raise. */
void failure_open(lua_State *L);
/* Pushes the metatable. */
void failure_push_metatable(lua_State *L);
bool failure_is(lua_State *L, int index);

/* Pushes an lp.Error of this status and text. May raise (memory). */
void failure_push(lua_State *L, lp_status status, const char *text);
/* Pushes and raises it. */
int failure_raise(lua_State *L, lp_status status, const char *text);
int failure_raisef(lua_State *L, lp_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Message handler: turns whatever was raised into an lp.Error with the traceback of the
 * place (coroutines that failed further inside first). */
int failure_handler(lua_State *L);
/* Keeps the traceback of a failed coroutine `co` for the value on top of L, which is about
 * to be raised in L. */
void failure_keep_trace(lua_State *L, lua_State *co);

#endif
