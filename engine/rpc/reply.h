/* Answers that come later: a handler takes its reply and returns, and whoever has the reply
 * answers through it. One that is lost answers by itself, naming the handler. */
#ifndef LP_RPC_REPLY_H
#define LP_RPC_REPLY_H

#include <lauxlib.h>

#include "rpc/server.h"

/* The metatable of replies. May raise. */
void reply_open(lua_State *L);
/* The call is done with: its reply, if it has one, answers nothing any more. */
void reply_forget(call *call);
/* Gives up deferred calls: those of `peer` (NULL: all, which are answered that the node has
 * ended), and of this id (NULL: whatever id). */
void reply_end_all(rpc *rpc, peer *peer, const uint32_t *id);

extern const luaL_Reg reply_functions[]; /* defer_reply */

#endif
