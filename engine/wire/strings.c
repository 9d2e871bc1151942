/* See strings.h. */
#include "wire/strings.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>

static inline uint64_t load(const char *at) {
  uint64_t word;
  memcpy(&word, at, sizeof word);
  return word;
}

/* The ends and the middle: enough to tell names apart, and what it takes for the others to be
 * compared anyway. */
static inline uint32_t mark_of(const char *bytes, size_t length) {
  uint64_t sum = length;
  if (length >= 8) {
    sum ^= load(bytes) ^ load(bytes + length - 8) * 3 ^ load(bytes + (length - 8) / 2) * 5;
  } else {
    for (size_t i = 0; i < length; i++) sum = sum << 8 ^ (uint8_t)bytes[i];
    sum ^= (uint64_t)length << 56;
  }
  return (uint32_t)(sum * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* In words that overlap: a call of memcmp costs as much as the rest. */
static inline bool same(const char *a, const char *b, size_t length) {
  if (length < 8) {
    for (size_t i = 0; i < length; i++)
      if (a[i] != b[i]) return false;
    return true;
  }
  for (size_t i = 0; i < length - 8; i += 8)
    if (load(a + i) != load(b + i)) return false;
  return load(a + length - 8) == load(b + length - 8);
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
  return place->length == length && same(place->bytes, bytes, length);
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

void strings_push(strings *cache, lua_State *L, const char *bytes, size_t length) {
  if (!cache || length > STRINGS_LENGTH || length == 0) {
    lua_pushlstring(L, bytes, length);
    return;
  }
  uint32_t mark = mark_of(bytes, length);
  strings_place *place = &cache->places[mark % STRINGS_PLACES];
  strings_place *other = &cache->places[(mark >> 16) % STRINGS_PLACES];
  if (holds(place, bytes, length) || holds(place = other, bytes, length)) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, place->reference);
    return;
  }
  push_new(cache, L, &cache->places[mark % STRINGS_PLACES], other, bytes, length);
}
