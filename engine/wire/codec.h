/* Lua values <-> MessagePack, straight from and to a Lua stack.
 *
 * One codec serves every link, so that a value refused over a socket is refused in
 * memory as well, by the same rule and with the same words. Writing never runs Lua
 * code except the `pack` function of a class given to lp.register; reading never
 * allocates from a length it has not checked against the bytes at hand. */
#ifndef LP_WIRE_CODEC_H
#define LP_WIRE_CODEC_H

#include <lua.h>

#include "base/buffer.h"
#include "base/status.h"

/* Bounds of one message; each is an error when passed, never an assert. */
typedef struct codec_limits {
  size_t message_bytes; /* encoded size of all values written by one call */
  size_t decoded_bytes; /* estimate of the memory the decoded values take */
  int values;           /* parameters or results of one message */
  int depth;            /* tables within tables; more than 200 counts as 200 */
  size_t other_keys;    /* entries with a key that is no string, in all maps of one
                           message read; 0: no bound. For links that are not trusted:
                           chosen integer keys can make a table slow. */
} codec_limits;

/* 64 MiB, 256 MiB, 10,000, 200 and no bound. */
extern const codec_limits codec_default_limits;

/* Extension types after the hello (docs/wire.md lists their bytes). */
enum codec_ext {
  CODEC_EXT_CLIENT = 1, /* a handle or client: the engine's, see codec_hooks */
  CODEC_EXT_OBJECT = 2, /* instance of a registered class: name, then its packed values */
  CODEC_EXT_FRAME = 32  /* one length-prefixed frame; never a value */
};

/* How values that belong to the engine travel. All fields may be NULL. */
typedef struct codec_hooks {
  /* Value at `index` is a userdata that is not of a registered class. Appends one
   * complete MessagePack value and returns true, or returns false: not ours. May raise. */
  bool (*write_userdata)(lua_State *L, int index, buffer *out);
  /* Pushes the value of an extension of type `type`, or returns false: unknown.
   * May raise. */
  bool (*read_ext)(lua_State *L, int type, const uint8_t *data, size_t length);
  /* Pushes a string of CODEC_HOLE_LEAST bytes or more, as lua_pushlstring. May take over what is
   * before the bytes, and the one behind them when no value of the message follows. */
  void (*push_long)(lua_State *L, const char *bytes, size_t length);
} codec_hooks;

typedef struct codec {
  codec_limits limits;
  codec_hooks hooks;
  struct strings *strings; /* of the state it reads for, see strings.h; or NULL */
  bool plain;              /* the peer sent no hello: extension types are neither written (instances
                              go as plain tables, userdata is refused) nor read */
} codec;

/* Appends the array of the `count` values at absolute indices first, first+1, … to
 * `out`. On a refusal `out->length` is back where it was and `fault` names what and
 * where: "argument 2: .env.socket: cannot send a userdata (FILE*)". The word before
 * the number is `what` ("argument", "result"). Needs a protected call around it only
 * for the `pack` functions of registered classes and for the write_userdata hook; when
 * one of them raises, whoever caught it restores `out->length`. A `pack` function that
 * makes something else write to `out` is refused (failed_precondition). */
lp_status codec_write(lua_State *L, int first, int count, const char *what, const codec *codec,
                      buffer *out, fault *fault);

enum { CODEC_HOLE_LEAST = 64 * 1024 /* bytes of a string that is worth a send of its own */ };

/* The same, but one string of CODEC_HOLE_LEAST bytes or more may be left out of the bytes: `hole`,
 * which is empty before, then says where it belongs. It is Lua's, and there until anything of the
 * state runs; what needs all bytes fills it (buffer_fill). NULL: as codec_write. */
lp_status codec_write_around(lua_State *L, int first, int count, const char *what,
                             const codec *codec, buffer *out, hole *hole, fault *fault);

/* Appends the one value at `index`, without an array around it; else as codec_write. A
 * refusal begins with `what` alone: "error: .data: cannot send a function". */
lp_status codec_write_value(lua_State *L, int index, const char *what, const codec *codec,
                            buffer *out, fault *fault);

/* Reads the MessagePack array of `length` bytes at `data` and pushes its elements,
 * their number into `count`. Anything else than exactly one array is a fault that
 * gives offset and expectation; then nothing is left on the stack. Out of memory
 * raises, as in every Lua API: call it protected. */
lp_status codec_read(lua_State *L, const uint8_t *data, size_t length, const codec *codec,
                     int *count, fault *fault);

/* Reads one value of any type (exactly `length` bytes) and pushes it. */
lp_status codec_read_value(lua_State *L, const uint8_t *data, size_t length, const codec *codec,
                           fault *fault);

/* Opens the codec in a state: the marks of empty tables (lp.map, lp.array) and the
 * registry of classes. Pushes a table of the Lua functions
 *   map(t)  array(t)             mark t and return it
 *   register(name, class, {pack=, unpack=})       `class` is the metatable of the
 *                                instances, or the table that is their __index
 *   classes() -> array of {name=, class=, pack=, unpack=}, as they were registered
 *   class_of(value) -> such a table, or nil
 *   pack(...) -> string          the array of the values
 *   unpack(string) -> values     (both without the engine's hooks)
 * May raise (memory). Call once per state. */
int codec_open(lua_State *L);

#endif
