/* A node that says it is not well (server:set_healthy). It answers calls all the same; its callers
 * are told, those that do not wait for a ready server get an error, and connection_state shows it.
 */
#ifndef LP_RPC_HEALTH_H
#define LP_RPC_HEALTH_H

#include "rpc/peer.h"

#define HEALTH_METHOD "lp.health"

/* What the node says from now on; every link is told. */
void health_set(rpc *rpc, bool healthy);
/* A link has just opened: its other end is told, unless all is well. */
void health_greet(peer *peer);
/* A message of HEALTH_METHOD came. */
void health_told(peer *peer, const frame *frame);
/* Does the other end say that it is not well? The fault says so in words for a caller. */
bool health_is_bad(const peer *peer, fault *fault);

#endif
