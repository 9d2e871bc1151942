/* See pending.h. */
#include "rpc/pending.h"

#include <lauxlib.h>

#include "base/clock.h"
#include "base/hot.h"
#include "base/memory.h"
#include "rpc/client.h"
#include "rpc/connecting.h"
#include "rpc/hello.h"
#include "rpc/near.h"

enum { FIRST_SLOTS = 8 };

HOT_SHARED pending *pending_of(peer *peer, uint32_t id) {
  if (!peer->slot_count) return NULL;
  pending *found = peer->slots[id & (peer->slot_count - 1)];
  return found && found->id == id ? found : NULL;
}

/* Doubles the table. Ids that differ modulo its size differ modulo twice its size too, so
 * every call keeps a place of its own. */
static bool slots_grow(peer *peer) {
  uint32_t count = peer->slot_count ? peer->slot_count * 2 : FIRST_SLOTS;
  pending **slots = mem_new(count * sizeof *slots);
  if (!slots) return false;
  for (uint32_t i = 0; i < peer->slot_count; i++)
    if (peer->slots[i]) slots[peer->slots[i]->id & (count - 1)] = peer->slots[i];
  mem_free(peer->slots);
  peer->slots = slots;
  peer->slot_count = count;
  return true;
}

static void pending_timer(timer *timer) {
  client_expire(list_entry(timer, pending, timer));
}

HOT_SHARED pending *pending_new(peer *peer) {
  rpc *rpc = peer->rpc;
  if (UNLIKELY(peer->pending_count * 2 >= peer->slot_count) && !slots_grow(peer)) return NULL;
  pending *made = rpc->free_pending;
  if (made) {
    rpc->free_pending = made->next;
  } else if (!(made = mem_new(sizeof *made))) {
    return NULL;
  }
  uint32_t mask = peer->slot_count - 1;
  /* Skips ids still in use, and 0, which is the hello's, when they begin again. */
  uint32_t id = peer->next_id;
  while (id == 0 || peer->slots[id & mask]) id++;
  peer->next_id = id + 1;
  made->peer = peer;
  made->id = id;
  made->bytes = 0;
  made->waits = true;
  made->watch.began = 0;
  made->task = NULL;
  made->future = LUA_NOREF;
  made->answered = NULL;
  timer_init(&made->timer, pending_timer);
  peer->slots[made->id & mask] = made;
  peer->pending_count++;
  peer_ref(peer);
  return made;
}

void pending_give_up(pending *pending) {
  peer *peer = pending->peer;
  meter_end(&peer->made, &pending->watch, true);
  if (connecting_drop(peer, pending)) return;
  if (!near_cancel(peer, pending->id)) hello_cancel(peer, pending->id);
  peer->late++;
  peer->late_bytes += pending->bytes;
}

HOT_SHARED size_t pending_credit(peer *peer, const pending *found) {
  if (found) return found->bytes;
  if (!peer->late) return 0; /* an answer nobody asked for */
  size_t share = peer->late_bytes / peer->late;
  peer->late--;
  peer->late_bytes -= share;
  return share;
}

HOT_SHARED void pending_detach(pending *pending) {
  peer *peer = pending->peer;
  timer_stop(&peer->rpc->node->loop->timers, &pending->timer);
  peer->slots[pending->id & (peer->slot_count - 1)] = NULL;
  peer->pending_count--;
}

HOT_SHARED void pending_recycle(pending *pending) {
  peer *peer = pending->peer;
  rpc *rpc = peer->rpc;
  pending->next = rpc->free_pending;
  rpc->free_pending = pending;
  peer_unref(peer);
}

void pending_free(pending *pending) {
  pending_detach(pending);
  pending_recycle(pending);
}
