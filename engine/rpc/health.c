/* See health.h. */
#include "rpc/health.h"

#include "rpc/hello.h"

void health_set(rpc *rpc, bool healthy) {
  if (rpc->unhealthy == !healthy) return;
  rpc->unhealthy = !healthy;
  for (list *each = rpc->peers.next; each != &rpc->peers; each = each->next)
    hello_health(list_entry(each, peer, link), healthy);
}

void health_greet(peer *peer) {
  if (peer->rpc->unhealthy) hello_health(peer, false);
}

void health_told(peer *peer, const frame *frame) {
  peer->unhealthy = hello_id(frame->body, frame->body_length) == 0;
}

bool health_is_bad(const peer *peer, fault *fault) {
  if (peer->state != PEER_OPEN || !peer->unhealthy) return false;
  fault_set(fault, LP_UNAVAILABLE, "node %s is unavailable: it says that it is not healthy",
            peer->name);
  return true;
}
