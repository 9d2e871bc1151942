/* The calling side: clients as scripts hold them, and the way back of an answer. */
#ifndef LP_RPC_CLIENT_H
#define LP_RPC_CLIENT_H

#include <lauxlib.h>

#include "rpc/peer.h"

/* Opens clients and futures in a state; pushes nothing. May raise. */
void client_open(lua_State *L);
/* Pushes a client of `peer` and takes over the caller's reference. When it raises (memory),
 * the reference stays until the node ends. */
void client_push(lua_State *L, peer *peer);
/* A client as it travels: a MessagePack extension of its target and name. Returns its length, 0:
 * `size` is too small or the peer has no target. */
size_t client_encode(uint8_t *out, size_t size, const peer *peer);
/* The other way: target and name into `text` (256 bytes), both terminated; returns the target's
 * length, 0: these bytes are no client. */
size_t client_decode(const uint8_t *data, size_t length, char *text);
extern const luaL_Reg client_functions[];
/* The call a task waits for, or NULL. */
const pending *client_awaited(const task *task);
extern const codec_hooks client_codec_hooks;

/* ---- answers: client_answer.c ----------------------------------------------- */

/* A response came for `pending`; in node_enter, in the main state. When it raises,
 * rpc->answering is left for client_lose. */
void client_answer(lua_State *L, pending *pending, const frame *frame);
/* The same without a protected call, for a task that waits for a few values of which nothing has to
 * be made. False: nothing was done. */
bool client_answer_quick(pending *pending, const frame *frame);
/* The same of an answer that is known to come in time, with the `count` values from `first` up of
 * L, a node's of this loop. How many bytes a message of them has; 0: nothing was done. */
size_t client_answer_near(pending *pending, lua_State *L, int first, int count);
/* The call cannot be answered any more. As client_answer. */
void client_fail(lua_State *L, pending *pending, lp_status status, const char *text);
/* Memory was out for the answer of rpc->answering, or of `begun` (may be NULL) when it did not
 * come to that: the caller is told, without making anything. */
void client_lose(rpc *rpc, pending *begun);
/* The deadline of a future's call has passed; from a timer. */
void client_expire(pending *pending);

#endif
