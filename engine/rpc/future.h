/* Futures: the outcome of a call, of a spawned task, or one a script settles itself. */
#ifndef LP_RPC_FUTURE_H
#define LP_RPC_FUTURE_H

#include <lauxlib.h>

#include "rpc/peer.h"

typedef struct future future;

void future_open(lua_State *L);
/* Pushes a pending future. */
future *future_push(lua_State *L);
/* Settles the future at `index` with the `count` values on top (ok) or the error on top;
 * pops them. Does nothing when it is settled already. */
void future_settle(lua_State *L, int index, bool ok, int count);
/* Which call it stands for, so that cancel can reach it. */
void future_attach(future *future, pending *pending);
void future_attach_task(future *future, task *task);
/* Does the task wait for a future? Then `call` is the call it stands for, or NULL. */
bool future_awaited(const task *task, const pending **call);
/* What it stands for was lost: settles without running Lua. `text` is static. */
void future_abandon(node *node, future *future, lp_status status, const char *text);
/* It failed, and nobody has asked for its outcome. */
bool future_unread_failure(lua_State *L, int index);
/* The failure of a task that was told to end is no failure of its node, whoever reads it. */
void future_excuse(lua_State *L, int index);
extern const luaL_Reg future_functions[];

#endif
