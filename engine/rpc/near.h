/* Calls between two nodes of one loop while nothing else is under way between them: the request is
 * written into the inbox of the node called, and the answer's values go onto the stack of the task
 * that waits. No frame is made, and nothing has to be flushed. Ids, credit, deadlines, cancellation
 * and what is counted are those of a call by frames.
 *
 * It may be one or the other from call to call, since nothing overtakes: there is no other way as
 * long as a frame of that direction has not arrived. None of the functions raises or runs Lua;
 * false: it is not for here, and nothing was done. */
#ifndef LP_RPC_NEAR_H
#define LP_RPC_NEAR_H

#include "rpc/client_parts.h"
#include "rpc/server.h"

/* Sends the call on the stack and takes its credit. */
bool near_request(lua_State *L, peer *peer, pending *call, const outgoing *what);
/* Answers with the `count` values from `first` up. */
bool near_answer(lua_State *L, const call *call, int first, int count);
/* The call is given up: it is taken out of the inbox, where a frame that says so might come too
 * late. It is answered all the same. */
bool near_cancel(const peer *peer, uint32_t id);

#endif
