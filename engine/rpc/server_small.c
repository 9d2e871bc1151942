/* See server_small.h. */
#include "rpc/server_small.h"

#include "base/hot.h"
#include "rpc/near.h"
#include "wire/codec_small.h"
#include "wire/frame_small.h"

/* As server_answer. False: nothing was done. */
HOT_INLINE bool answer_small(lua_State *L, call *call, int first, int count) {
  peer *peer = call->peer;
  if (near_answer(L, call, first, count)) {
    call->failed = false;
    return true;
  }
  /* Looked at once for as many answers as go together. */
  if (!peer->written && link_queued(&peer->wire) > peer->rpc->max_answer_bytes) return false;
  buffer *out = peer_small_begin(peer, FRAME_SMALL_ROOM);
  if (!out) return false;
  uint8_t *body = frame_small_response(out->data + out->length, call->id);
  uint8_t *end =
      codec_put_small(L, first, count, &peer->rpc->codec, body, out->data + out->capacity);
  if (!end) return false;
  peer_small_end(peer, out, end);
  call->failed = false;
  return true;
}

HOT_SHARED bool server_small_done(lua_State *L, task *task, int first, int count) {
  call *call = task->context;
  call->peer->rpc->inbox.moment = 0; /* the handler may have taken long */
  return !call->reply && task->cancelled == LP_OK && server_can_answer(call) &&
         answer_small(L, call, first, count);
}
