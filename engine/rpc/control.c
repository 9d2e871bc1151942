/* See control.h. */
#include "rpc/control.h"

#include <lauxlib.h>
#include <string.h>

#include "rpc/methods.h"
#include "runtime/failure.h"

static bool is_service(const rpc *rpc) {
  return strcmp(rpc->node->key, SERVICE_KEY) == 0;
}

bool control_link(const rpc *rpc, const char *from) {
  return is_service(rpc) || (from && strcmp(from, SERVICE_KEY) == 0);
}

bool control_wants(const peer *peer, const frame *frame) {
  size_t length = frame->method_length;
  if (!peer->control || !methods_reserved(frame->method, length)) return false;
  return length != strlen(METHODS_REQUEST) || memcmp(frame->method, METHODS_REQUEST, length) != 0;
}

static int answered(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  return lua_gettop(L);
}

/* (method, ...): what the module of reserved methods has under that name, called. */
static int call_reserved(lua_State *L) {
  luaL_checkstack(L, 4, NULL);
  lua_getglobal(L, "require");
  lua_pushstring(L, is_service(rpc_of(L)) ? "lp.control" : "lp.inside");
  lua_call(L, 1, 1);
  lua_pushvalue(L, 1);
  lua_rawget(L, -2);
  if (!lua_isfunction(L, -1))
    return failure_raisef(L, LP_NOT_FOUND, "there is no reserved method %s", lua_tostring(L, 1));
  lua_replace(L, 1);
  lua_pop(L, 1);
  lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, answered);
  return lua_gettop(L);
}

void control_find(lua_State *L, const frame *frame) {
  lua_pushcfunction(L, call_reserved);
  lua_pushlstring(L, frame->method, frame->method_length);
}
