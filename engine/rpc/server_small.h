/* The short way of answering: with a few scalars, on an open link. What it does it does as server.h
 * says; the rest it leaves alone. */
#ifndef LP_RPC_SERVER_SMALL_H
#define LP_RPC_SERVER_SMALL_H

#include "rpc/server.h"

/* The running task's handler has returned `count` values from `first` up: its call is answered with
 * them, and server_left or server_again follows. False: nothing was done, and the task's end
 * answers. Never raises. */
bool server_small_done(lua_State *L, task *task, int first, int count);

#endif
