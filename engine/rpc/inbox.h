/* Requests that have come and not begun. Their bytes lie one behind the other, in the order they
 * came, and one task, ready like any other, takes them one after the other: it finds the method,
 * decodes the arguments onto its own stack and runs the handler. So a handler that does not wait
 * costs no coroutine, no resume and no protected call of its own. When one waits, takes long or
 * fails, another task goes on with the rest.
 *
 * What does not go this way (long requests, notifications, peers without hello, nodes with a
 * memory_limit, whatever is held back or refused) is server.h's. */
#ifndef LP_RPC_INBOX_H
#define LP_RPC_INBOX_H

#include "rpc/server.h"

/* Puts in a request that frame_open or frame_next took apart. False: it is not for here, and
 * nothing was done. May raise: memory for a task. */
bool inbox_put(lua_State *L, peer *peer, const frame *frame);
/* The same of a request that its caller on this loop writes itself, between the place given and
 * `stop`; behind the name there are 16 bytes that can be read. NULL: it is not for here. Next comes
 * inbox_written, or nothing of it. Neither raises. */
uint8_t *inbox_begin(peer *peer, const char *method, size_t length, const uint8_t **stop);
void inbox_written(peer *peer, uint32_t id, size_t method_length, const uint8_t *end, int64_t due);
/* Does inbox_put raise nothing now, in a protected call or not? */
static inline bool inbox_calm(const rpc *rpc) {
  return rpc->inbox.next || !list_empty(&rpc->node->idle);
}
/* A call that came another way begins behind these, and what comes from now on behind that: also
 * when none is left of them, as long as the task that was to take them has its turn before it. */
static inline void inbox_seal(rpc *rpc) {
  if (rpc->inbox.count || rpc->inbox.next) rpc->inbox.sealed = true;
}
/* The node's methods have changed, for requests that came already, too. */
static inline void inbox_rebound(rpc *rpc) {
  rpc->inbox.owner = NULL;
}
/* A task of calls came back from running: another goes on if requests are left. */
void inbox_go_on(node *node);
/* A task was closed before it took a call. */
void inbox_lost(rpc *rpc, const task *task);
/* A task had no memory for the first, which had not become a call yet. */
void inbox_failed(rpc *rpc);
/* Drops the requests of `peer` (of this id, unless NULL), which never begin. True: it was there. */
bool inbox_drop(peer *peer, const uint32_t *id);
/* Drops all; their callers are told that the node has ended. */
void inbox_forget(rpc *rpc);
/* Calls `fn` with each; `due`: when its caller's time is over, or CLOCK_NEVER. */
typedef void (*inbox_fn)(void *owner, const peer *peer, const frame *frame, int64_t arrived_at,
                         int64_t due);
void inbox_each(const rpc *rpc, inbox_fn fn, void *owner);

#endif
