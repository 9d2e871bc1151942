/* The codec as Lua functions; see codec_open in codec.h. */
#include <lauxlib.h>

#include "wire/codec.h"
#include "wire/codec_class.h"

#define DEFAULT_LIMITS                                                                      \
  {                                                                                         \
    .message_bytes = (size_t)64 << 20, .decoded_bytes = (size_t)256 << 20, .values = 10000, \
    .depth = 200                                                                            \
  }

const codec_limits codec_default_limits = DEFAULT_LIMITS;
static const codec default_rules = {.limits = DEFAULT_LIMITS}; /* and no hooks */

static const char scratch_metatable[] = "lp.codec.scratch";

enum { SCRATCH_KEPT = 64 << 10 /* bytes of memory kept for the next time */ };

/* What pack() writes to, kept from one call to the next. */
typedef struct scratch {
  buffer bytes;
  bool taken; /* in use: a pack function of a class called pack() */
} scratch;

static int free_scratch(lua_State *L) {
  buffer_fini(&((scratch *)lua_touserdata(L, 1))->bytes);
  return 0;
}

/* Pushes a scratch that the collector frees. */
static scratch *push_scratch(lua_State *L) {
  scratch *made = lua_newuserdatauv(L, sizeof *made, 0);
  *made = (scratch){0};
  luaL_setmetatable(L, scratch_metatable);
  return made;
}

static int pack_into(lua_State *L, int count, scratch *to) {
  fault why;
  to->taken = true;
  lp_status status = codec_write(L, 1, count, "argument", &default_rules, &to->bytes, &why);
  to->taken = false;
  if (status != LP_OK) return luaL_error(L, "%s", why.text);
  size_t length = to->bytes.length;
  to->bytes.length = 0;
  lua_pushlstring(L, (const char *)to->bytes.data, length);
  if (to->bytes.capacity > SCRATCH_KEPT) buffer_fini(&to->bytes);
  return 1;
}

static int pack_values(lua_State *L) {
  int count = lua_gettop(L);
  scratch *kept = lua_touserdata(L, lua_upvalueindex(1));
  return pack_into(L, count, kept->taken ? push_scratch(L) : kept);
}

static int unpack_values(lua_State *L) {
  size_t length;
  const char *bytes = luaL_checklstring(L, 1, &length);
  int count;
  fault why;
  if (codec_read(L, (const uint8_t *)bytes, length, &default_rules, &count, &why) != LP_OK)
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
  static const luaL_Reg functions[] = {{"map", class_mark_map},
                                       {"array", class_mark_array},
                                       {"register", class_register},
                                       {"classes", class_list},
                                       {"class_of", class_of},
                                       {"unpack", unpack_values},
                                       {NULL, NULL}};
  class_open(L);
  create_scratch_metatable(L);
  luaL_newlib(L, functions);
  push_scratch(L);
  lua_pushcclosure(L, pack_values, 1);
  lua_setfield(L, -2, "pack");
  return 1;
}
