/* Errors on the wire: {code, message, traceback, node, method, data, chain}. Each node an
 * error passes appends its name to the chain, so that the last caller sees the way it took. */
#include <lauxlib.h>
#include <string.h>

#include "rpc/remote.h"
#include "runtime/failure.h"
#include "wire/frame.h"

enum { CHAIN_MAX = 64 };

/* Adds what this node knows to the error table at `index`, a copy that goes out. */
static void sign(lua_State *L, int index, const rpc *rpc, const char *method) {
  if (lua_getfield(L, index, "node") == LUA_TNIL) {
    lua_pushstring(L, rpc->node->name);
    lua_setfield(L, index, "node");
    lua_pushstring(L, method);
    lua_setfield(L, index, "method");
  }
  lua_createtable(L, 2, 0);
  lua_Integer count = 0;
  if (lua_getfield(L, index, "chain") == LUA_TTABLE) {
    lua_Integer length = (lua_Integer)lua_rawlen(L, -1);
    for (; count < length && count < CHAIN_MAX; count++) {
      lua_rawgeti(L, -1, count + 1);
      lua_rawseti(L, -3, count + 1);
    }
  }
  lua_pop(L, 1);
  lua_pushstring(L, rpc->node->name);
  lua_rawseti(L, -2, count + 1);
  lua_setfield(L, index, "chain");
  lua_pop(L, 1);
}

/* A plain table with the fields of the lp.Error (or string) at `index`; pushes it. */
static void copy_fields(lua_State *L, int index) {
  static const char *const fields[] = {"code",   "message", "traceback", "node",
                                       "method", "data",    "chain"};
  index = lua_absindex(L, index);
  lua_createtable(L, 0, 7);
  if (lua_type(L, index) != LUA_TTABLE) {
    lua_pushstring(L, lp_strerror(LP_UNKNOWN));
    lua_setfield(L, -2, "code");
    luaL_tolstring(L, index, NULL);
    lua_setfield(L, -2, "message");
    return;
  }
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    lua_pushstring(L, fields[i]);
    lua_pushvalue(L, -1);
    lua_rawget(L, index);
    lua_rawset(L, -3);
  }
}

void remote_prepare(lua_State *L, int index, const rpc *rpc, const char *method) {
  luaL_checkstack(L, 8, NULL);
  copy_fields(L, index);
  sign(L, lua_gettop(L), rpc, method);
}

/* Takes `data` out of the table on top; false: there is none. Makes nothing. */
static bool drop_data(lua_State *L) {
  int table = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING || strcmp(lua_tostring(L, -2), "data") != 0) continue;
    lua_pop(L, 1);
    lua_pushnil(L);
    lua_rawset(L, table);
    return true;
  }
  return false;
}

bool remote_write(lua_State *L, const rpc *rpc, buffer *out) {
  do {
    if (codec_write_value(L, lua_gettop(L), "error", &rpc->codec, out, NULL) == LP_OK) return true;
  } while (drop_data(L)); /* data that cannot travel stays behind */
  return remote_write_plain(rpc, LP_UNKNOWN, "an error that cannot be sent", out);
}

static bool put_pair(buffer *out, const char *key, const char *value) {
  return frame_put_string(out, key, strlen(key)) && frame_put_string(out, value, strlen(value));
}

bool remote_write_plain(const rpc *rpc, lp_status status, const char *text, buffer *out) {
  const char *name = rpc->node->name;
  return frame_put_map(out, 4) && put_pair(out, "code", lp_strerror(status)) &&
         put_pair(out, "message", text) && put_pair(out, "node", name) &&
         frame_put_string(out, "chain", 5) && frame_put_array(out, 1) &&
         frame_put_string(out, name, strlen(name));
}

void remote_read(lua_State *L, rpc *rpc, const uint8_t *data, size_t length) {
  fault fault;
  luaL_checkstack(L, 8, NULL);
  if (codec_read_value(L, data, length, &rpc->codec, &fault) != LP_OK) {
    failure_push(L, LP_DATA_LOSS, fault.text);
    return;
  }
  if (lua_type(L, -1) == LUA_TTABLE) {
    failure_push_metatable(L);
    lua_setmetatable(L, -2);
    return;
  }
  failure_push(L, LP_UNKNOWN, luaL_tolstring(L, -1, NULL)); /* a foreign server's message */
  lua_replace(L, -3);
  lua_pop(L, 1);
}
