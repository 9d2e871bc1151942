/* Why a value cannot be written, and where it is: "argument 2: .env.socket: cannot send
 * a userdata (FILE*)".
 *
 * The path is put together while the walk over the values unwinds, innermost part first,
 * so that a message that is well pays nothing for it. Every function returns false for
 * its caller to pass on. Nothing here allocates. */
#ifndef LP_WIRE_CODEC_REFUSAL_H
#define LP_WIRE_CODEC_REFUSAL_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { REFUSAL_PATH = 200, REFUSAL_REASON = 240 };

typedef struct refusal {
  lp_status status;
  bool pathless;     /* it concerns the message, not one value */
  bool path_cut;     /* the path is full: its outer parts are left out */
  size_t path_begin; /* the path is path + path_begin, filled from its end */
  char path[REFUSAL_PATH + 1];
  char reason[REFUSAL_REASON];
} refusal;

/* Assigns the few fields that count: clearing the texts would cost every message. */
void refusal_init(refusal *refusal);

/* Sets the reason, printf-style. */
bool refusal_set(refusal *refusal, lp_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for reasons that concern the message as a whole (resource_exhausted). */
bool refusal_message(refusal *refusal, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "cannot send a …" for the value at `index`. */
bool refusal_type(refusal *refusal, lua_State *L, int index);

/* Empties the path: what was refused is rather the value the walk is at now. */
void refusal_forget_path(refusal *refusal);

/* The refused value is in this part of an outer one: any text, an index, or the value
 * whose key is at `index` of the stack. */
bool refusal_within(refusal *refusal, const char *part);
bool refusal_within_index(refusal *refusal, lua_Integer index);
bool refusal_within_key(refusal *refusal, lua_State *L, int index);

/* Fills `fault`; `place` names the outermost value ("argument 2"). */
lp_status refusal_report(const refusal *refusal, const char *place, fault *fault);

#endif
