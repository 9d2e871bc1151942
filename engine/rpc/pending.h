/* Calls from here that wait for their answer, by the id they went out with. */
#ifndef LP_RPC_PENDING_H
#define LP_RPC_PENDING_H

#include "base/hot.h"
#include "rpc/peer.h"

/* One waited for by a task, by a future or by C. It holds a reference of its peer. */
struct pending {
  struct pending *next; /* free list */
  peer *peer;
  uint32_t id;
  size_t bytes; /* credit that comes back with the answer */
  bool waits;   /* for a server that is not there yet (wait_for_ready) */
  stopwatch watch;
  task *task;  /* NULL: a future's */
  int future;  /* registry reference of the future's userdata */
  timer timer; /* a future's deadline */
  /* Instead of task and future: the call was made in C, see native.h. */
  void (*answered)(void *owner, const frame *frame, lp_status status, const char *text);
  void *owner;
};

/* A free id, entered as pending; NULL when memory is out. */
pending *pending_new(peer *peer);
/* The one of this id, or NULL. */
pending *pending_of(peer *peer, uint32_t id);
/* Forgets it: an answer that still comes is dropped. */
void pending_free(pending *pending);
/* When its time is over, CLOCK_NEVER: it has none. */
HOT_INLINE int64_t pending_due(const pending *pending) {
  const timer *timer = pending->task ? &pending->task->timer : &pending->timer;
  return timer_running(timer) ? timer->due : CLOCK_NEVER;
}
/* Nobody waits for it any more: takes it back if it was not sent yet, else tells the other side,
 * which answers all the same, and has the call's credit come back with that answer. pending_free or
 * client_fail follows. */
void pending_give_up(pending *pending);
/* Takes the credit of a call of `bytes` that has been written, and counts it as one of `meter`'s
 * method (or NULL). `call` NULL: a notification. */
HOT_INLINE void pending_charge(peer *peer, pending *call, meter *meter, size_t bytes) {
  peer->window--;
  peer->window_bytes -= (int64_t)bytes;
  if (call) {
    call->bytes = bytes;
    meter_begin(&peer->made, meter, peer->rpc->node->loop->now, &call->watch);
  } else {
    peer->made.calls++;
    if (meter) meter->calls++;
  }
}
/* The bytes whose credit an answer brings back: those of `found`, or when it comes too late
 * (NULL) a share of what was given up, so that in the end all is back. */
size_t pending_credit(peer *peer, const pending *found);
/* The first half of pending_free: off the peer's table, no timer; and the second. */
void pending_detach(pending *pending);
void pending_recycle(pending *pending);

#endif
