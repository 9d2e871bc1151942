/* See codec_class.h. The registry holds one table: names and metatables of classes
 * lead to class records, small integers to marks and to strings that lookups need
 * (pushing a C string would allocate). */
#include "wire/codec_class.h"

#include <lauxlib.h>
#include <string.h>

#include "wire/text.h"

/* Only the address is used: the key of our table in the registry. */
static const char registry_key = 0;

enum known { KNOWN_MAP_MARK = 1, KNOWN_ARRAY_MARK, KNOWN_INDEX, KNOWN_NAME };

/* Pushes our table, or returns false and pushes nothing. */
static bool push_known(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &registry_key) == LUA_TTABLE) return true;
  lua_pop(L, 1);
  return false;
}

bool mark_push(lua_State *L, codec_mark mark) {
  if (!push_known(L)) return false;
  lua_rawgeti(L, -1, mark == MARK_MAP ? KNOWN_MAP_MARK : KNOWN_ARRAY_MARK);
  lua_remove(L, -2);
  return true;
}

bool class_push_of(lua_State *L) {
  int metatable = lua_gettop(L);
  if (!push_known(L)) return false;
  int known = metatable + 1;
  lua_pushvalue(L, metatable);
  if (lua_rawget(L, known) != LUA_TTABLE) {
    lua_settop(L, known);
    lua_rawgeti(L, known, KNOWN_INDEX);
    if (lua_rawget(L, metatable) == LUA_TTABLE) lua_rawget(L, known);
  }
  bool found = lua_istable(L, -1);
  if (found) lua_replace(L, known);
  lua_settop(L, found ? known : metatable);
  return found;
}

bool class_push_named(lua_State *L, const char *name, size_t length) {
  if (!push_known(L)) return false;
  lua_pushlstring(L, name, length);
  bool found = lua_rawget(L, -2) == LUA_TTABLE;
  if (found)
    lua_remove(L, -2);
  else
    lua_pop(L, 2);
  return found;
}

const char *class_type_name(lua_State *L, int index) {
  int top = lua_gettop(L);
  const char *name = NULL;
  if (lua_getmetatable(L, index) && push_known(L)) {
    lua_rawgeti(L, -1, KNOWN_NAME);
    if (lua_rawget(L, -3) == LUA_TSTRING) name = lua_tostring(L, -1);
  }
  lua_settop(L, top);
  return name;
}

static void new_mark(lua_State *L, int known, const char *name) {
  lua_createtable(L, 0, 1);
  lua_pushstring(L, name);
  lua_setfield(L, -2, "__name");
  lua_rawseti(L, -2, known);
}

void class_open(lua_State *L) {
  if (push_known(L)) {
    lua_pop(L, 1);
    return;
  }
  lua_createtable(L, 4, 0);
  new_mark(L, KNOWN_MAP_MARK, "lp.map");
  new_mark(L, KNOWN_ARRAY_MARK, "lp.array");
  lua_pushliteral(L, "__index");
  lua_rawseti(L, -2, KNOWN_INDEX);
  lua_pushliteral(L, "__name");
  lua_rawseti(L, -2, KNOWN_NAME);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &registry_key);
}

/* ---- marks ------------------------------------------------------------------ */

static bool is_mark(lua_State *L, codec_mark mark) { /* the value on top */
  bool same = mark_push(L, mark) && lua_rawequal(L, -1, -2);
  lua_pop(L, 1);
  return same;
}

static int set_mark(lua_State *L, codec_mark mark, const char *function) {
  if (lua_isnone(L, 1)) lua_newtable(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  if (lua_getmetatable(L, 1) && !is_mark(L, MARK_MAP) && !is_mark(L, MARK_ARRAY))
    return luaL_error(L, "%s: the table has a metatable already", function);
  lua_settop(L, 1);
  mark_push(L, mark);
  lua_setmetatable(L, 1);
  return 1;
}

int class_mark_map(lua_State *L) {
  return set_mark(L, MARK_MAP, "lp.map");
}

int class_mark_array(lua_State *L) {
  return set_mark(L, MARK_ARRAY, "lp.array");
}

/* ---- lp.register ------------------------------------------------------------ */

enum { ARG_NAME = 1, ARG_CLASS, ARG_OPTIONS, VAR_KNOWN, VAR_RECORD };

/* Refuses option names other than pack and unpack. */
static void check_option_names(lua_State *L) {
  for (lua_pushnil(L); lua_next(L, ARG_OPTIONS); lua_pop(L, 1)) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
    if (name && (!strcmp(name, "pack") || !strcmp(name, "unpack"))) continue;
    luaL_error(L, "lp.register: unknown option %s (there are pack and unpack)",
               luaL_tolstring(L, -2, NULL));
  }
}

/* Moves the option `name` to `field` of the record; true when it was given. */
static bool take_function(lua_State *L, const char *name, int field) {
  lua_pushstring(L, name);
  int type = lua_rawget(L, ARG_OPTIONS);
  if (type != LUA_TNIL && type != LUA_TFUNCTION)
    luaL_error(L, "lp.register: %s must be a function, not a %s", name, luaL_typename(L, -1));
  lua_rawseti(L, VAR_RECORD, field);
  return type != LUA_TNIL;
}

static void take_options(lua_State *L) {
  if (lua_isnoneornil(L, ARG_OPTIONS)) return;
  check_option_names(L);
  bool pack = take_function(L, "pack", CLASS_PACK);
  bool unpack = take_function(L, "unpack", CLASS_UNPACK);
  if (pack != unpack)
    luaL_error(L, "lp.register: pack and unpack go together; %s is missing",
               pack ? "unpack" : "pack");
}

/* True when the class itself serves as metatable: it has a metamethod. */
static bool is_metatable(lua_State *L) {
  for (lua_pushnil(L); lua_next(L, ARG_CLASS); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING || strncmp(lua_tostring(L, -2), "__", 2) != 0) continue;
    lua_pop(L, 2);
    return true;
  }
  return false;
}

/* Pushes the metatable of new instances. A class that is only an __index gets one of
 * its own here, the same for all instances. */
static void push_metatable(lua_State *L) {
  if (is_metatable(L)) {
    lua_pushvalue(L, ARG_CLASS);
    return;
  }
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, ARG_CLASS);
  lua_setfield(L, -2, "__index");
}

/* A name leads to one class and a class to one name; giving the same pair again
 * replaces its functions (a module that is reloaded). */
static void check_free(lua_State *L) {
  lua_pushvalue(L, ARG_NAME);
  if (lua_rawget(L, VAR_KNOWN) == LUA_TTABLE) {
    lua_rawgeti(L, -1, CLASS_IDENTITY);
    if (!lua_rawequal(L, -1, ARG_CLASS))
      luaL_error(L, "lp.register: the name '%s' is taken by another class",
                 lua_tostring(L, ARG_NAME));
  }
  lua_pushvalue(L, ARG_CLASS);
  if (lua_rawget(L, VAR_KNOWN) == LUA_TTABLE) {
    lua_rawgeti(L, -1, CLASS_NAME);
    if (!lua_rawequal(L, -1, ARG_NAME))
      luaL_error(L, "lp.register: the class is registered as '%s' already", lua_tostring(L, -1));
  }
  lua_settop(L, VAR_KNOWN);
}

static void check_arguments(lua_State *L) {
  if (lua_type(L, ARG_NAME) != LUA_TSTRING || lua_rawlen(L, ARG_NAME) == 0)
    luaL_error(L, "lp.register: the name must be a string that is not empty (got %s)",
               luaL_typename(L, ARG_NAME));
  if (lua_type(L, ARG_CLASS) != LUA_TTABLE)
    luaL_error(L, "lp.register: the class must be a table (got %s)", luaL_typename(L, ARG_CLASS));
  if (lua_type(L, ARG_OPTIONS) > LUA_TNIL && !lua_istable(L, ARG_OPTIONS))
    luaL_error(L, "lp.register: the options must be a table (got %s)",
               luaL_typename(L, ARG_OPTIONS));
}

static void set_field_from(lua_State *L, int index, int field) {
  lua_pushvalue(L, index);
  lua_rawseti(L, VAR_RECORD, field);
}

/* Makes the value at `index` lead to the record. */
static void enter_record(lua_State *L, int index) {
  lua_pushvalue(L, index);
  lua_pushvalue(L, VAR_RECORD);
  lua_rawset(L, VAR_KNOWN);
}

int class_register(lua_State *L) {
  check_arguments(L);
  lua_settop(L, ARG_OPTIONS);
  if (!push_known(L)) return luaL_error(L, "lp.register: the codec is not open");
  check_free(L);
  lua_createtable(L, CLASS_IDENTITY, 0);
  take_options(L);
  set_field_from(L, ARG_NAME, CLASS_NAME);
  set_field_from(L, ARG_CLASS, CLASS_IDENTITY);
  push_metatable(L);
  set_field_from(L, -1, CLASS_METATABLE);
  enter_record(L, ARG_NAME);
  enter_record(L, ARG_CLASS);
  enter_record(L, VAR_RECORD + 1);
  return 0;
}

/* ---- what is registered ----------------------------------------------------- */

/* Replaces the record on top by {name =, class =, pack =, unpack =}. */
static void describe_class(lua_State *L) {
  static const struct {
    const char *name;
    int field;
  } fields[] = {{"name", CLASS_NAME},
                {"class", CLASS_IDENTITY},
                {"pack", CLASS_PACK},
                {"unpack", CLASS_UNPACK}};
  lua_createtable(L, 0, 4);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    lua_rawgeti(L, -2, fields[i].field);
    lua_setfield(L, -2, fields[i].name);
  }
  lua_remove(L, -2);
}

int class_list(lua_State *L) {
  lua_settop(L, 0);
  lua_newtable(L);
  if (!push_known(L)) return 1;
  for (lua_pushnil(L); lua_next(L, 2);) {
    if (lua_type(L, 3) == LUA_TSTRING) {
      describe_class(L);
      lua_rawseti(L, 1, (lua_Integer)lua_rawlen(L, 1) + 1);
    }
    lua_settop(L, 3);
  }
  lua_settop(L, 1);
  return 1;
}

int class_of(lua_State *L) {
  luaL_checkany(L, 1);
  if (!lua_getmetatable(L, 1) || !class_push_of(L)) return 0;
  describe_class(L);
  return 1;
}
