/* See failure.h. */
#include "runtime/failure.h"

#include <lauxlib.h>
#include <stdarg.h>
#include <stdio.h>

static const char metatable_key = 0;
static const char trace_key = 0; /* registry: {value =, trace =} of the last inner failure */

void failure_open(lua_State *L) {
  lua_createtable(L, 0, 4);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &metatable_key);
}

void failure_push_metatable(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable_key);
}

bool failure_is(lua_State *L, int index) {
  if (lua_type(L, index) != LUA_TTABLE || !lua_getmetatable(L, index)) return false;
  failure_push_metatable(L);
  bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same;
}

static void set_string(lua_State *L, const char *key, const char *value) {
  lua_pushstring(L, value);
  lua_setfield(L, -2, key);
}

void failure_push(lua_State *L, lp_status status, const char *text) {
  luaL_checkstack(L, 4, NULL);
  lua_createtable(L, 0, 4);
  set_string(L, "code", lp_strerror(status));
  set_string(L, "message", text);
  failure_push_metatable(L);
  lua_setmetatable(L, -2);
}

int failure_raise(lua_State *L, lp_status status, const char *text) {
  failure_push(L, status, text);
  return lua_error(L);
}

int failure_raisef(lua_State *L, lp_status status, const char *format, ...) {
  char text[FAULT_TEXT];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return failure_raise(L, status, text);
}

/* Pushes the trace kept for the value at index 1, or nil. */
static void take_inner_trace(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &trace_key) != LUA_TTABLE) return;
  lua_rawgeti(L, -1, 1);
  bool same = lua_rawequal(L, -1, 1);
  lua_pop(L, 1);
  if (same) {
    lua_rawgeti(L, -1, 2);
  } else {
    lua_pushnil(L);
  }
  lua_remove(L, -2);
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &trace_key);
}

void failure_keep_trace(lua_State *L, lua_State *co) {
  lua_createtable(L, 2, 0);
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, 1);
  int value = lua_gettop(L) - 1;
  luaL_traceback(L, co, NULL, 0);
  /* A trace kept for this very value is of a coroutine further inside. */
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &trace_key) == LUA_TTABLE) {
    lua_rawgeti(L, -1, 1);
    if (lua_rawequal(L, -1, value)) {
      lua_rawgeti(L, -2, 2);
      lua_pushliteral(L, "\n");
      lua_pushvalue(L, -5);
      lua_concat(L, 3);
      lua_replace(L, -4);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  lua_rawseti(L, -2, 2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &trace_key);
}

/* tostring(value at 1) even when its __tostring raises. */
static int protected_tostring(lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  return 1;
}

static void push_message(lua_State *L) {
  lua_pushcfunction(L, protected_tostring);
  lua_pushvalue(L, 1);
  if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
    lua_pop(L, 1);
    lua_pushfstring(L, "(a %s whose __tostring failed)", luaL_typename(L, 1));
  }
}

static void push_traceback(lua_State *L) {
  take_inner_trace(L);
  luaL_traceback(L, L, NULL, 1);
  if (lua_isnil(L, -2)) {
    lua_remove(L, -2);
    return;
  }
  lua_pushliteral(L, "\n");
  lua_insert(L, -2);
  lua_concat(L, 3);
}

int failure_handler(lua_State *L) {
  lua_settop(L, 1);
  luaL_checkstack(L, 10, NULL);
  if (failure_is(L, 1)) {
    lua_pushliteral(L, "traceback");
    if (lua_rawget(L, 1) == LUA_TNIL) {
      lua_pushliteral(L, "traceback");
      push_traceback(L);
      lua_rawset(L, 1);
    }
    lua_settop(L, 1);
    return 1;
  }
  lua_createtable(L, 0, 6);
  set_string(L, "code", lp_strerror(LP_UNKNOWN));
  push_message(L);
  lua_setfield(L, 2, "message");
  if (lua_type(L, 1) == LUA_TTABLE) {
    lua_pushvalue(L, 1);
    lua_setfield(L, 2, "data");
  }
  push_traceback(L);
  lua_setfield(L, 2, "traceback");
  failure_push_metatable(L);
  lua_setmetatable(L, 2);
  return 1;
}
