/* Which function a call runs. By default the functions found raw in the instance and along
 * its chain of __index tables; names that an options table chose; or, for an instance that
 * owns its server, what it has bound. Nothing here runs the user's code. */
#include "rpc/methods.h"

#include <lauxlib.h>
#include <string.h>

#include "wire/strings.h"

void methods_note_standard(lua_State *L, rpc *rpc) {
  static const char *const names[RPC_STANDARD] = {"_G", "string",    "table", "math", "io",
                                                  "os", "coroutine", "debug", "utf8", "package"};
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  for (int i = 0; i < RPC_STANDARD; i++) {
    lua_getfield(L, -1, names[i]);
    rpc->standard[i] = lua_topointer(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  lua_pushliteral(L, "__index");
  rpc->index_name = luaL_ref(L, LUA_REGISTRYINDEX);
}

/* Is the table on top _G or a standard library's? By identity, since it is asked per call. */
static bool is_standard(lua_State *L, const rpc *rpc) {
  const void *table = lua_topointer(L, -1);
  for (int i = 0; i < RPC_STANDARD; i++)
    if (rpc->standard[i] == table) return true;
  return false;
}

/* Pushes the table that the __index of the metatable of the object on top leads to. */
static bool next_in_chain(lua_State *L, const rpc *rpc) {
  if (!lua_getmetatable(L, -1)) return false;
  lua_rawgeti(L, LUA_REGISTRYINDEX, rpc->index_name);
  return lua_rawget(L, -2) == LUA_TTABLE && !is_standard(L, rpc);
}

enum { CHAIN_LIMIT = 100 };

/* Puts the function found raw under the key at `key` along the chain of the object behind it,
 * at the top, in the key's place. Leaves what it likes above the object. */
static bool find_raw(lua_State *L, const rpc *rpc, int key) {
  int object = key + 1;
  for (int i = 0; i < CHAIN_LIMIT; i++) {
    if (lua_type(L, -1) == LUA_TTABLE) {
      lua_pushvalue(L, key);
      if (lua_rawget(L, -2) == LUA_TFUNCTION) {
        lua_replace(L, key);
        return true;
      }
      lua_pop(L, 1);
    }
    if (!next_in_chain(L, rpc)) return false;
    if (i % 2 == 0) continue;   /* a level leaves three values */
    lua_replace(L, object + 1); /* the same places again, however long the chain is */
    lua_settop(L, object + 1);
  }
  return false;
}

static bool is_hidden(const char *name, size_t length) {
  static const char *const hidden[] = {"set_courier_server", "new", "init", "initialize"};
  if (length == 0 || name[0] == '_' || methods_reserved(name, length)) return true;
  for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
    if (strlen(hidden[i]) == length && memcmp(hidden[i], name, length) == 0) return true;
  return false;
}

/* Is the value at `index` what made the instance? */
static bool is_constructor(lua_State *L, const rpc *rpc, int index) {
  return rpc->constructor_address && lua_topointer(L, index) == rpc->constructor_address;
}

/* With options{expose=}: is the name on top among them? */
static bool is_chosen(lua_State *L, const rpc *rpc, int key) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, rpc->expose);
  lua_pushvalue(L, key);
  lua_rawget(L, -2);
  bool chosen = lua_toboolean(L, -1);
  lua_pop(L, 2);
  return chosen;
}

static int called(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  return lua_gettop(L);
}

/* self(...) without a self of its own: for an instance that is a function. */
static int call_self(lua_State *L) {
  lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, called);
  return lua_gettop(L);
}

/* client(...) runs what makes the instance at `object` callable; it is pushed. */
static bool find_call(lua_State *L, int object) {
  if (lua_isfunction(L, object)) {
    lua_pushcfunction(L, call_self);
    return true;
  }
  if (luaL_getmetafield(L, object, "__call") == LUA_TFUNCTION) return true;
  lua_settop(L, object);
  return false;
}

/* The same for methods_find: in the place of the name. */
static bool find_callable(lua_State *L, int key) {
  if (!find_call(L, key + 1)) return false;
  lua_replace(L, key);
  return true;
}

static int answer_methods(lua_State *L) {
  methods_list(L, rpc_of(L));
  return 1;
}

/* Pushes the engine's own answer to the one reserved method of a data link. */
static bool find_reserved(lua_State *L, const char *method, size_t length) {
  if (length != strlen(METHODS_REQUEST) || memcmp(method, METHODS_REQUEST, length) != 0)
    return false;
  lua_pushcfunction(L, answer_methods);
  lua_pushnil(L); /* its self */
  return true;
}

/* What the instance bound under the name, else under "*", which gets the name as well. Bound
 * functions take no self. */
static bool find_bound(lua_State *L, const rpc *rpc, const char *method, size_t length) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, rpc->bound);
  lua_pushlstring(L, method, length);
  if (lua_rawget(L, -2) != LUA_TNIL) {
    lua_remove(L, -2);
    return true;
  }
  lua_pop(L, 1);
  lua_pushliteral(L, "*");
  if (lua_rawget(L, -2) == LUA_TNIL) {
    lua_pop(L, 2);
    return false;
  }
  lua_remove(L, -2);
  lua_pushlstring(L, method, length);
  return true;
}

bool methods_find(lua_State *L, rpc *rpc, const char *method, size_t length) {
  if (find_reserved(L, method, length)) return true;
  if (rpc->bound != LUA_NOREF) return find_bound(L, rpc, method, length);
  if (rpc->instance == LUA_NOREF) return false;
  strings_push(rpc->codec.strings, L, L, method, length);
  int key = lua_gettop(L); /* the function takes its place */
  lua_rawgeti(L, LUA_REGISTRYINDEX, rpc->instance);
  bool found;
  if (rpc->expose != LUA_NOREF && !is_chosen(L, rpc, key)) {
    found = false;
  } else if (length == 6 && memcmp(method, "__call", 6) == 0) {
    found = find_callable(L, key) && !is_constructor(L, rpc, key);
  } else {
    found = (rpc->expose != LUA_NOREF || !is_hidden(method, length)) && find_raw(L, rpc, key) &&
            (rpc->expose != LUA_NOREF || !is_constructor(L, rpc, key));
  }
  lua_settop(L, found ? key + 1 : key - 1);
  return found;
}

/* Adds the names of functions in the table on top to the set at `set`. */
static void collect(lua_State *L, rpc *rpc, int set) {
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING || !lua_isfunction(L, -1)) continue;
    size_t length;
    const char *name = lua_tolstring(L, -2, &length);
    if (is_hidden(name, length) || is_constructor(L, rpc, -1)) continue;
    lua_pushvalue(L, -2);
    lua_pushboolean(L, 1);
    lua_rawset(L, set);
  }
}

static void collect_chain(lua_State *L, rpc *rpc, int set) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, rpc->instance);
  if (find_call(L, set + 1) && !is_constructor(L, rpc, -1)) {
    lua_pushboolean(L, 1);
    lua_setfield(L, set, "__call");
  }
  lua_settop(L, set + 1);
  for (int i = 0; i < CHAIN_LIMIT; i++) {
    if (lua_type(L, -1) == LUA_TTABLE) collect(L, rpc, set);
    if (!next_in_chain(L, rpc)) return;
    lua_replace(L, set + 1);
    lua_settop(L, set + 1);
  }
}

void methods_list(lua_State *L, rpc *rpc) {
  luaL_checkstack(L, 16, NULL);
  lua_newtable(L);
  int names = lua_gettop(L);
  lua_newtable(L);
  int chosen = rpc->bound != LUA_NOREF ? rpc->bound : rpc->expose;
  if (chosen != LUA_NOREF) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, chosen);
    lua_replace(L, names + 1);
  } else if (rpc->instance != LUA_NOREF) {
    collect_chain(L, rpc, names + 1);
    lua_settop(L, names + 1);
  }
  lua_Integer count = 0;
  for (lua_pushnil(L); lua_next(L, names + 1); lua_pop(L, 1)) {
    lua_pushvalue(L, -2);
    lua_rawseti(L, names, ++count);
  }
  lua_settop(L, names);
}
