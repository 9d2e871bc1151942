/* The short way of serving: requests with a few scalars for a method that has been found already,
 * answered with a few scalars. What it does it does as server.h says; the rest it leaves alone. */
#ifndef LP_RPC_SERVER_SMALL_H
#define LP_RPC_SERVER_SMALL_H

#include "rpc/server.h"

/* As server_request, while what came is taken apart (rpc->found). False: nothing was done, and
 * server_request has to be asked. May raise: memory; then server_give_up follows. */
bool server_small(lua_State *L, peer *peer, const frame *frame);
/* As server_answer. False: the same. */
bool server_small_answer(lua_State *L, call *call, int first);

#endif
