/* What lp.core does with clients. */
#include "base/clock.h"
#include "rpc/client_parts.h"
#include "rpc/connecting.h"
#include "rpc/methods.h"
#include "rpc/server.h"
#include "runtime/failure.h"

/* lp.call(client, "name", ...) */
static int core_call(lua_State *L) {
  client *client = client_check(L, 1);
  luaL_checktype(L, 2, LUA_TSTRING);
  client_refuse_reserved(L, 2);
  return client_send(L, client_due(L, client));
}

/* ask(client, "lp.name", ...): a reserved method, for the engine's own modules; answered on control
 * links only. */
static int core_ask(lua_State *L) {
  client *client = client_check(L, 1);
  luaL_checktype(L, 2, LUA_TSTRING);
  return client_send(L, client_due(L, client));
}

/* client(key, name): the client of a node; key is what engine or connector find it by. */
static int core_client(lua_State *L) {
  const char *key = luaL_checkstring(L, 1);
  peer *peer = peer_get(rpc_of(L), key, luaL_optstring(L, 2, key));
  if (!peer) return failure_raise(L, LP_RESOURCE_EXHAUSTED, "out of memory");
  client_push(L, peer);
  return 1;
}

static int core_is_client(lua_State *L) {
  lua_pushboolean(L, client_at(L, 1) != NULL);
  return 1;
}

/* with(client, {timeout = seconds, wait_for_ready = boolean}): the same client with other
 * options; those that are nil stay. Names and types were checked by lp.options. */
static int core_with(lua_State *L) {
  client *client = client_check(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  struct client *made = client_copy(L, client);
  if (lua_getfield(L, 2, "timeout") != LUA_TNIL) {
    double seconds = luaL_checknumber(L, -1);
    made->timeout = seconds > 0 ? clock_from_seconds(seconds) : CLOCK_NEVER;
  }
  if (lua_getfield(L, 2, "wait_for_ready") != LUA_TNIL) made->hasty = !lua_toboolean(L, -1);
  lua_pop(L, 2);
  return 1;
}

/* target(client) -> key or nil, name */
static int core_target(lua_State *L) {
  client *client = client_check(L, 1);
  lua_pushstring(L, client->peer->target);
  lua_pushstring(L, client->peer->name);
  return 2;
}

/* list_methods(client) -> array of the names that can be called */
static int core_list_methods(lua_State *L) {
  client *client = client_check(L, 1);
  lua_settop(L, 1);
  lua_pushliteral(L, METHODS_REQUEST);
  return client_send(L, client_due(L, client));
}

/* connection_state(client) -> a word */
static int core_connection_state(lua_State *L) {
  lua_pushstring(L, peer_state_name(client_check(L, 1)->peer));
  return 1;
}

/* dial(client, address): where its target is; part of a connector, as the next two. */
static int core_dial(lua_State *L) {
  peer_dial(client_check(L, 1)->peer, luaL_checkstring(L, 2));
  return 0;
}

/* refuse(client, text): the target is gone, and will not be back. */
static int core_refuse(lua_State *L) {
  peer *peer = client_check(L, 1)->peer;
  peer_down(peer, LP_UNAVAILABLE, luaL_checkstring(L, 2));
  if (peer->state == PEER_IDLE) peer->trouble = PEER_GONE;
  return 0;
}

/* away(client, text) -> whether somebody waits: the target is away, the connector will know when
 * it is back. */
static int core_away(lua_State *L) {
  lua_pushboolean(L, connecting_watched(client_check(L, 1)->peer, luaL_checkstring(L, 2)));
  return 1;
}

/* on_close(client, fn): calls fn(text) in a task when its link goes down. */
static int core_on_close(lua_State *L) {
  client *client = client_check(L, 1);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  luaL_unref(L, LUA_REGISTRYINDEX, client->peer->on_close);
  client->peer->on_close = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

/* caller() -> a client of whoever called the handler that runs, or nil. */
static int core_caller(lua_State *L) {
  peer *peer = server_caller(L);
  if (!peer) return 0;
  client_push(L, peer_ref(peer));
  return 1;
}

const luaL_Reg client_functions[] = {
    {"call", core_call},
    {"ask", core_ask},
    {"client", core_client},
    {"is_client", core_is_client},
    {"with", core_with},
    {"target", core_target},
    {"list_methods", core_list_methods},
    {"connection_state", core_connection_state},
    {"dial", core_dial},
    {"refuse", core_refuse},
    {"away", core_away},
    {"on_close", core_on_close},
    {"caller", core_caller},
    {NULL, NULL},
};
