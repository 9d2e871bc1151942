/* Calls from here that wait for their answer, by the id they went out with. */
#ifndef LP_RPC_PENDING_H
#define LP_RPC_PENDING_H

#include "rpc/peer.h"

/* One waited for by a task or by a future. It holds a reference of its peer. */
struct pending {
  struct pending *next; /* free list */
  peer *peer;
  uint32_t id;
  size_t bytes; /* credit that comes back with the answer */
  task *task;   /* NULL: a future's */
  int future;   /* registry reference of the future's userdata */
  timer timer;  /* a future's deadline */
};

/* A free id, entered as pending; NULL when memory is out. */
pending *pending_new(peer *peer);
/* The one of this id, or NULL. */
pending *pending_of(peer *peer, uint32_t id);
/* Forgets it: an answer that still comes is dropped. */
void pending_free(pending *pending);
/* The first half of that: off the peer's table, no timer; and the second. */
void pending_detach(pending *pending);
void pending_recycle(pending *pending);

#endif
