/* See strings.h. */
#include "wire/strings.h"

#include <lauxlib.h>

#include "base/bytes.h"
#include "base/hot.h"

/* The ends: enough to tell names apart, and what it takes for the others to be compared anyway. */
static inline uint32_t mark_of(const char *bytes, size_t length) {
  uint64_t sum = length;
  if (length >= 8) {
    sum ^= bytes_load_8(bytes) ^ bytes_load_8(bytes + length - 8) * 3;
  } else {
    for (size_t i = 0; i < length; i++) sum = sum << 8 ^ (uint8_t)bytes[i];
    sum ^= (uint64_t)length << 56;
  }
  return (uint32_t)(sum * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* The string is on top. Should memory be out, the place keeps nothing. */
static void keep(strings_place *place, lua_State *L, const char *bytes, size_t length) {
  int reference = place->reference;
  place->length = 0;
  lua_pushvalue(L, -1);
  if (reference) {
    lua_rawseti(L, LUA_REGISTRYINDEX, reference);
  } else {
    place->reference = luaL_ref(L, LUA_REGISTRYINDEX);
  }
  memcpy(place->bytes, bytes, length);
  place->length = (uint8_t)length;
}

static inline bool holds(const strings_place *place, const char *bytes, size_t length) {
  return place->length == length && bytes_same(place->bytes, bytes, length);
}

/* Neither place has it. */
static void push_new(strings *cache, lua_State *L, strings_place *first, strings_place *second,
                     const char *bytes, size_t length) {
  lua_pushlstring(L, bytes, length);
  cache->misses++;
  if (!first->length)
    keep(first, L, bytes, length);
  else if (!second->length)
    keep(second, L, bytes, length);
  else if (cache->misses % 8 == 0)
    keep(cache->misses % 16 ? first : second, L, bytes, length);
}

/* What is not kept is made, unless nothing may be. */
static bool push_made(lua_State *L, lua_State *to, const char *bytes, size_t length) {
  if (!L) return false;
  lua_pushlstring(L, bytes, length);
  lua_xmove(L, to, 1);
  return true;
}

/* Not in its first place. */
static bool push_other(strings *cache, lua_State *L, lua_State *to, uint32_t mark,
                       const char *bytes, size_t length) {
  strings_place *first = &cache->places[mark % STRINGS_PLACES];
  strings_place *second = &cache->places[(mark >> 16) % STRINGS_PLACES];
  if (holds(second, bytes, length)) {
    lua_rawgeti(to, LUA_REGISTRYINDEX, second->reference);
    return true;
  }
  if (!L) return false;
  push_new(cache, L, first, second, bytes, length);
  lua_xmove(L, to, 1);
  return true;
}

HOT_SHARED bool strings_push(strings *cache, lua_State *L, lua_State *to, const char *bytes,
                             size_t length) {
  if (UNLIKELY(!cache || length - 1 >= STRINGS_LENGTH)) /* none is as long as that */
    return push_made(L, to, bytes, length);
  uint32_t mark = mark_of(bytes, length);
  const strings_place *place = &cache->places[mark % STRINGS_PLACES];
  if (UNLIKELY(!holds(place, bytes, length))) return push_other(cache, L, to, mark, bytes, length);
  lua_rawgeti(to, LUA_REGISTRYINDEX, place->reference);
  return true;
}
