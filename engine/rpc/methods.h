/* Which function a call of a method runs, and which can be called at all. */
#ifndef LP_RPC_METHODS_H
#define LP_RPC_METHODS_H

#include <string.h>

#include "rpc/rpc.h"

/* Names that begin with "lp." are the engine's. */
static inline bool methods_reserved(const char *name, size_t length) {
  return length >= 3 && memcmp(name, "lp.", 3) == 0;
}
/* This one every node answers, with an array of the names that can be called. */
#define METHODS_REQUEST "lp.methods"

/* Pushes the function a call of `method` runs, and what comes before the call's arguments (its
 * self, mostly); false: nothing of that name. Needs the stack a C function begins with. */
bool methods_find(lua_State *L, rpc *rpc, const char *method, size_t length);
/* Pushes the names that can be called, an array. */
void methods_list(lua_State *L, rpc *rpc);

/* Notes which tables are standard libraries; once, after they were opened. May raise. */
void methods_note_standard(lua_State *L, rpc *rpc);

#endif
