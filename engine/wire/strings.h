/* Short strings that come again and again (names of methods, keys, states): kept by their bytes
 * and pushed without being hashed and looked up in Lua's own table, which for a string of 32
 * bytes costs more than everything else about it.
 *
 * Of one Lua state. A string has two places, so that two that come all the time need not put each
 * other out. A place that is taken goes to another string at one miss in eight only, so that
 * strings that never come again cost little and put out little. */
#ifndef LP_WIRE_STRINGS_H
#define LP_WIRE_STRINGS_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STRINGS_PLACES = 32, STRINGS_LENGTH = 40 /* the longest that Lua itself interns */ };

typedef struct strings_place {
  int reference; /* into the registry; 0: nothing is kept */
  uint8_t length;
  char bytes[STRINGS_LENGTH];
} strings_place;

typedef struct strings {
  strings_place places[STRINGS_PLACES];
  uint32_t misses;
} strings;

/* Pushes the string of these bytes on `to`, a state of the one the cache belongs to. Without a
 * cache (NULL) as lua_pushlstring. May raise in L, which is `to` or runs in its stead: memory. With
 * L NULL nothing is made and nothing raises: false, if it is not kept. */
bool strings_push(strings *cache, lua_State *L, lua_State *to, const char *bytes, size_t length);

#endif
