/* Constructors that wait for each other in a circle would wait for ever. A node that holds a
 * request until it is constructed says so to the caller ("lp.held", with its name). A caller
 * that is itself under construction, waiting for just that call, passes it on to those it
 * holds, its own name in front. Who finds itself on such a list has found the circle. */
#ifndef LP_RPC_CIRCLE_H
#define LP_RPC_CIRCLE_H

#include "rpc/peer.h"
#include "wire/frame.h"

#define CIRCLE_METHOD "lp.held"

/* The request `id` of `peer` is held here. */
void circle_held(peer *peer, uint32_t id);
/* A message of CIRCLE_METHOD came. In node_enter. */
void circle_told(lua_State *L, peer *peer, const frame *frame);

#endif
