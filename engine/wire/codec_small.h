/* The codec's short way: messages of a few scalars and strings, which most calls are. What it
 * does it does as codec.h says; everything else it leaves to codec.h, faults included. */
#ifndef LP_WIRE_CODEC_SMALL_H
#define LP_WIRE_CODEC_SMALL_H

#include "wire/codec.h"
#include "wire/strings.h"

/* All take for granted that limits.values is CODEC_SMALL at least and limits.decoded_bytes 1 MiB,
 * as every node has them (codec_default_limits), and do not look. */

/* As codec_write, into the room from `at` to `stop`. Where the message ends; NULL: too little room
 * or no small message, and codec_write has to be asked. Never raises. */
enum { CODEC_SMALL = 15 };
uint8_t *codec_put_small(lua_State *L, int first, int count, const codec *codec, uint8_t *at,
                         const uint8_t *stop);

/* As codec_read, but pushes on `to`, which has places for CODEC_SMALL values and may be a state
 * that does not run; how many were pushed. -1: none, and codec_read has to be asked. With `rest`
 * other bytes may follow, and it is told where they begin. Raises in L when memory is out, runs no
 * Lua. With L NULL it makes nothing and raises nothing: what needs a new string is not read. */
int codec_read_small(lua_State *L, lua_State *to, const uint8_t *data, size_t length,
                     const codec *codec, const uint8_t **rest);

/* As writing and then reading with L NULL, but without the bytes between: pushes the values from
 * `first` up on `to`, of another interpreter of this thread, whose rules `codec` are. How many
 * bytes the message would have had (with strings that are no text one more each, at most), up to
 * CODEC_COPY_MAX; 0: it is no small message, or has strings that are not kept there, and nothing
 * was pushed. Never raises. */
enum { CODEC_COPY_MAX = 1 + CODEC_SMALL * (STRINGS_LENGTH + 2) };
size_t codec_copy_small(lua_State *L, int first, int count, lua_State *to, const codec *codec);

#endif
