/* Requests that wait here for their handlers: the node does not serve yet, or handles as many as it
 * may. A list in the order they came, in the rpc. */
#ifndef LP_RPC_HELD_H
#define LP_RPC_HELD_H

#include "rpc/peer.h"

typedef struct held {
  struct held *next;
  peer *peer;       /* a reference */
  uint32_t session; /* of the peer when it came */
  int64_t due, arrived_at;
  frame frame; /* its pointers lead into `bytes` */
  uint8_t bytes[];
} held;

/* Copies a request to the end of the list. False: memory is out. */
bool held_keep(peer *peer, const frame *frame, int64_t due);
/* Takes the request at `place` out of the list and frees it. */
void held_remove(rpc *rpc, held **place);
/* Calls `fn` with each. */
typedef void (*held_fn)(void *owner, const peer *peer, const frame *frame, int64_t arrived_at,
                        int64_t due);
void held_each(const rpc *rpc, held_fn fn, void *owner);
/* Tells the callers of all of them whom their calls wait for; see circle.h. */
void held_tell(rpc *rpc, const char *list);

#endif
