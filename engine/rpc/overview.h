/* What a node tells about itself: its state, tasks with their Lua stacks, calls under way, counts
 * and times. Written without running Lua, so also within an interrupt; see runtime/inspect.h. */
#ifndef LP_RPC_OVERVIEW_H
#define LP_RPC_OVERVIEW_H

#include <lauxlib.h>

#include "rpc/rpc.h"
#include "wire/writer.h"

/* node_hooks.on_inspect: `what` is "state", "tasks", "calls", "stats" or
 * "totals". */
bool overview_write(node *node, const char *what, writer *out);

extern const luaL_Reg overview_functions[]; /* overview */

/* ---- parts, one a file ------------------------------------------------------ */

/* Calls under way, made from here and handled here: {made = array, served = array}. */
void overview_calls(const rpc *rpc, writer *out);
/* Counts, times, links and bounds. */
void overview_stats(const rpc *rpc, writer *out);
/* The state, with the number of calls in and out: little, for who asks again and again. */
void overview_totals(const rpc *rpc, writer *out);
/* Opens a map and puts what "state" and "stats" begin with. */
void overview_begin(const rpc *rpc, writer *out);
/* Seconds from `began` to now; of times that lie ahead, 0. */
double overview_seconds(int64_t began, int64_t now);

#endif
