/* The reserved methods, whose names begin with "lp.": what the engine answers about a process
 * and its nodes (lp.nodes, lp.eval, …). They exist on control links only, which are those of the
 * service: the run's control socket leads to it, and it asks its nodes. On every other link
 * such a name is not found. What the methods do is Lua, loaded when the first is called. */
#ifndef LP_RPC_CONTROL_H
#define LP_RPC_CONTROL_H

#include "rpc/peer.h"

/* The key of the node that runs the policy; no node of a program can have it. */
#define SERVICE_KEY "service"

/* Is it a link between the service and somebody else? `from` is the name of the node that
 * dialled in this process, NULL: it came through a socket. */
bool control_link(const rpc *rpc, const char *from);
/* Is this a reserved method called over a control link? It is answered at once, also by a node
 * that does not serve yet, or has enough to do. */
bool control_wants(const peer *peer, const frame *frame);
/* Pushes the function it runs, and what comes before its arguments, as methods_find does. */
void control_find(lua_State *L, const frame *frame);

#endif
