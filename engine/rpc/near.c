/* See near.h. */
#include "rpc/near.h"

#include "base/fault_point.h"
#include "base/hot.h"
#include "rpc/client.h"
#include "rpc/inbox.h"
#include "rpc/pending.h"
#include "wire/codec_small.h"

/* What the frames would have taken: their prefix, array, kind, id of five bytes, and of a request
 * the name's head, of an answer the error's place; a time from 66 ms to an hour. The bound of a
 * message is far beyond what the inbox takes of a request, and CODEC_COPY_MAX of an answer. */
enum { REQUEST_BYTES = FRAME_PREFIX + 8, TIME_BYTES = 6, ANSWER_BYTES = FRAME_PREFIX + 8 };

/* The peer at the other end of an open link, if the next may go this way. A node that calls itself
 * would write into the inbox it reads. */
HOT_INLINE peer *near_peer(const peer *peer) {
  const pipe_end *end = peer->wire.pipe;
  if (!end || !list_empty(&peer->flushable.link) || peer->frame_start) return NULL;
  if (fault_point_has_rule(FAULT_FRAME) || fault_point_has_rule(FAULT_PIPE)) return NULL;
  struct peer *there = pipe_near(end);
  if (UNLIKELY(!there || there->state != PEER_OPEN || there->rpc == peer->rpc)) return NULL;
  return there;
}

static inline void count_bytes(peer *from, peer *to, size_t bytes) {
  from->made.bytes += bytes;
  to->served.bytes += bytes;
  to->active_at = to->rpc->node->loop->now;
}

HOT_SHARED bool near_request(lua_State *L, peer *peer, pending *call, const outgoing *what) {
  const uint8_t *stop;
  const meter *name = what->meter;
  struct peer *there = near_peer(peer);
  if (UNLIKELY(!there || name->length > TOKEN_STR_SHORT)) return false;
  uint8_t *body = inbox_begin(there, name->name, name->length, &stop);
  if (UNLIKELY(!body)) return false;
  uint8_t *end = codec_put_small(L, what->first, what->count, &peer->rpc->codec, body, stop);
  if (UNLIKELY(!end)) return false;
  size_t bytes = REQUEST_BYTES + name->length + (size_t)(end - body);
  if (what->due != CLOCK_NEVER) bytes += TIME_BYTES;
  pending_charge(peer, call, what->meter, bytes);
  count_bytes(peer, there, bytes);
  inbox_written(there, call->id, name->length, end, what->due);
  return true;
}

HOT_SHARED bool near_answer(lua_State *L, const call *call, int first, int count) {
  peer *here = call->peer, *there = near_peer(here);
  pending *waits = there ? pending_of(there, call->id) : NULL;
  /* The caller's own time: if the request came by frame, it may be over before the handler's is. */
  if (UNLIKELY(!waits || clock_passed_in(&here->rpc->inbox.moment, pending_due(waits))))
    return false;
  size_t credit = waits->bytes;
  size_t bytes = client_answer_near(waits, L, first, count);
  if (UNLIKELY(!bytes)) return false;
  count_bytes(here, there, ANSWER_BYTES + bytes);
  peer_answered(there, credit);
  return true;
}

/* By an interrupt it may be given up while Lua runs in the node called. */
bool near_cancel(const peer *peer, uint32_t id) {
  struct peer *there = peer->wire.pipe ? pipe_owner_here(peer->wire.pipe) : NULL;
  return there && there->rpc->node->entered == 0 && inbox_drop(there, &id);
}
