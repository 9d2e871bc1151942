/* A node whose task computes for long while others wait for the node: its log says so, once for
 * each time, with the task's Lua stack. */
#ifndef LP_RPC_BUSY_H
#define LP_RPC_BUSY_H

#include "rpc/rpc.h"

/* node_hooks.on_busy. False: nobody waits yet. */
bool busy_tell(node *node, double seconds);

#endif
