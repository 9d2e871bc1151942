/* See server_small.h. */
#include "rpc/server_small.h"

#include <string.h>

#include "base/clock.h"
#include "rpc/methods.h"
#include "wire/codec_small.h"
#include "wire/frame_small.h"

/* Would server_request run a call at once? */
static inline bool admits(const rpc *rpc) {
  return rpc->serving && !rpc->held && !rpc->stopped &&
         (rpc->max_running == 0 || rpc->running < rpc->max_running) &&
         atomic_load_explicit(&rpc->node->state, memory_order_relaxed) < NODE_DRAINING;
}

/* The method is what was found last, or is now. */
static inline bool find(lua_State *L, rpc *rpc, const frame *frame) {
  const methods_found *found = &rpc->found;
  if (found->values && found->length == frame->method_length &&
      !memcmp(found->name, frame->method, found->length))
    return !found->wide;
  if (frame->method_length >= 3 && !memcmp(frame->method, "lp.", 3)) return false;
  int top = lua_gettop(L);
  bool kept = methods_find(L, rpc, frame->method, frame->method_length) &&
              methods_keep(L, rpc, frame->method, frame->method_length, lua_gettop(L) - top);
  lua_settop(L, top);
  return kept;
}

bool server_small(lua_State *L, peer *peer, const frame *frame) {
  rpc *rpc = peer->rpc;
  if (!rpc->found.usable || frame->meta || peer->foreign || !admits(rpc) || !find(L, rpc, frame))
    return false;
  int values = rpc->found.values;
  task *task = rpc->preparing = task_new(L, &server_call_kind, NULL);
  for (int i = 0; i < values; i++) lua_pushvalue(L, METHODS_FOUND + i);
  lua_xmove(L, task->co, values);
  int count = codec_read_small(task->co, frame->body, frame->body_length, &rpc->codec);
  call *call = count < 0 ? NULL : server_call_new(peer, frame);
  rpc->preparing = NULL;
  if (!call) {
    task_discard(task);
    rpc->found.wide = true; /* the others of this name will be like it */
    return false;
  }
  server_run(task, call, values + count - 1, CLOCK_NEVER);
  return true;
}

bool server_small_answer(lua_State *L, call *call, int first) {
  peer *peer = call->peer;
  if (link_queued(&peer->wire) > peer->rpc->max_answer_bytes) return false;
  buffer *out = peer_small_begin(peer, FRAME_SMALL_ROOM);
  if (!out) return false;
  uint8_t *body = frame_small_response(out->data + out->length, call->id);
  uint8_t *end = codec_put_small(L, first, lua_gettop(L) - first + 1, &peer->rpc->codec, body,
                                 out->data + out->capacity);
  if (!end) return false;
  peer_small_end(peer, out, end);
  call->failed = false;
  return true;
}
