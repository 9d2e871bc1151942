/* What a Lua state knows about classes and marks; see codec_open.
 *
 * Kept in the registry of the state. Nothing here allocates except where it says so,
 * so that codec_write can look things up outside of a protected call. */
#ifndef LP_WIRE_CODEC_CLASS_H
#define LP_WIRE_CODEC_CLASS_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

/* A class record is a Lua table with these integer keys. */
enum class_field {
  CLASS_NAME = 1,
  CLASS_METATABLE, /* what instances get when read */
  CLASS_PACK,      /* function or nil: the raw fields travel */
  CLASS_UNPACK,
  CLASS_IDENTITY /* the table given to register */
};

typedef enum codec_mark { MARK_MAP, MARK_ARRAY } codec_mark;

/* Pushes the metatable that marks a table, or returns false and pushes nothing (the
 * codec was not opened in this state). */
bool mark_push(lua_State *L, codec_mark mark);

/* Pushes the record of the class that the metatable on top of the stack belongs to, or
 * returns false and pushes nothing. */
bool class_push_of(lua_State *L);

/* The same by name. Allocates. */
bool class_push_named(lua_State *L, const char *name, size_t length);

/* The __name in the metatable of the value at `index`, NULL when it has none; the
 * string lives as long as the metatable. */
const char *class_type_name(lua_State *L, int index);

/* Creates registry entries (once per state). Allocates. */
void class_open(lua_State *L);
/* lua_CFunctions behind lp.register, lp.map and lp.array, and those of codec_open. */
int class_register(lua_State *L);
int class_list(lua_State *L);
int class_of(lua_State *L);
int class_mark_map(lua_State *L);
int class_mark_array(lua_State *L);

#endif
