/* Short strings that come again and again (names of methods, keys, states): kept by their bytes
 * and pushed without being hashed and looked up in Lua's own table, which for a string of 32
 * bytes costs more than everything else about it.
 *
 * Of one Lua state. A place is taken by the string that was met twice in a row there, so that
 * strings that never come again push out nothing. */
#ifndef LP_WIRE_STRINGS_H
#define LP_WIRE_STRINGS_H

#include <lua.h>
#include <stddef.h>
#include <stdint.h>

enum { STRINGS_PLACES = 32, STRINGS_LENGTH = 40 /* the longest that Lua itself interns */ };

typedef struct strings_place {
  uint32_t met;  /* mark of the string that was met here last */
  int reference; /* into the registry; 0: nothing is kept */
  uint8_t length;
  char bytes[STRINGS_LENGTH];
} strings_place;

typedef struct strings {
  strings_place places[STRINGS_PLACES];
} strings;

/* Pushes the string of these bytes on `L`, any state of the one the cache belongs to. Without a
 * cache (NULL) as lua_pushlstring. May raise: memory. */
void strings_push(strings *cache, lua_State *L, const char *bytes, size_t length);

#endif
