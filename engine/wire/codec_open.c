/* The codec as Lua functions; see codec_open in codec.h. */
#include <lauxlib.h>

#include "wire/codec.h"
#include "wire/codec_class.h"

const codec_limits codec_default_limits = {
    .message_bytes = (size_t)64 << 20,
    .decoded_bytes = (size_t)256 << 20,
    .values = 10000,
    .depth = 200,
};

static const char scratch_metatable[] = "lp.codec.scratch";

static int free_scratch(lua_State *L) {
  buffer_fini(lua_touserdata(L, 1));
  return 0;
}

/* Pushes a buffer that the collector frees should a pack function raise. */
static buffer *push_scratch(lua_State *L) {
  buffer *scratch = lua_newuserdatauv(L, sizeof *scratch, 0);
  *scratch = (buffer){0};
  luaL_setmetatable(L, scratch_metatable);
  return scratch;
}

static int pack_values(lua_State *L) {
  const codec rules = {.limits = codec_default_limits};
  int count = lua_gettop(L);
  buffer *scratch = push_scratch(L);
  fault why;
  if (codec_write(L, 1, count, "argument", &rules, scratch, &why) != LP_OK)
    return luaL_error(L, "%s", why.text);
  lua_pushlstring(L, (const char *)scratch->data, scratch->length);
  buffer_fini(scratch);
  return 1;
}

static int unpack_values(lua_State *L) {
  const codec rules = {.limits = codec_default_limits};
  size_t length;
  const char *bytes = luaL_checklstring(L, 1, &length);
  int count;
  fault why;
  if (codec_read(L, (const uint8_t *)bytes, length, &rules, &count, &why) != LP_OK)
    return luaL_error(L, "%s", why.text);
  return count;
}

static void create_scratch_metatable(lua_State *L) {
  luaL_newmetatable(L, scratch_metatable);
  lua_pushcfunction(L, free_scratch);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
}

int codec_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"map", class_mark_map},      {"array", class_mark_array},
                                       {"register", class_register}, {"classes", class_list},
                                       {"class_of", class_of},       {"pack", pack_values},
                                       {"unpack", unpack_values},    {NULL, NULL}};
  class_open(L);
  create_scratch_metatable(L);
  luaL_newlib(L, functions);
  return 1;
}
