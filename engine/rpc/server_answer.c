/* What a call is answered with: its results, an error, or a refusal made without Lua. */
#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "rpc/remote.h"
#include "rpc/server.h"

void server_refuse(peer *peer, uint32_t id, lp_status status, const char *text) {
  size_t start, at;
  buffer *out = peer_write_begin(peer, &start);
  if (out && frame_begin_response(out, !peer->foreign, id, true, &at) &&
      (peer->foreign ? frame_put_string(out, text, strlen(text))
                     : remote_write_plain(peer->rpc, status, text, out)) &&
      frame_put_nil(out)) {
    peer_write_end(peer, start);
  } else {
    if (out) peer_write_undo(peer, start);
    peer_break(peer);
  }
}

void server_ended(const rpc *rpc, char *text) {
  const node *node = rpc->node;
  snprintf(text, FAULT_TEXT + 64, "node %s is unavailable: %s", node->name,
           node->end_text ? node->end_text : "it has finished");
}

void server_refuse_ended(peer *peer, uint32_t id) {
  char text[FAULT_TEXT + 64];
  server_ended(peer->rpc, text);
  server_refuse(peer, id, LP_UNAVAILABLE, text);
}

/* Results as the peer expects them: to an engine always an array; to a foreign peer no
 * result is nil, one is itself. */
static lp_status put_results(lua_State *L, peer *peer, int first, buffer *out, hole *hole,
                             fault *fault) {
  int count = lua_gettop(L) - first + 1;
  codec codec = peer->rpc->codec;
  if (!peer->foreign || count > 1) {
    codec.plain = peer->foreign;
    if (!peer_sends_around(peer)) hole = NULL;
    return codec_write_around(L, first, count, "result", &codec, out, hole, fault);
  }
  codec.plain = true;
  if (count == 0) lua_pushnil(L);
  return codec_write_value(L, first, "result", &codec, out, fault);
}

/* A caller that does not read what it asked for must not fill our memory with it. */
static bool answers_pile_up(lua_State *L, const peer *peer, fault *fault) {
  size_t queued = link_queued(&peer->wire);
  size_t most = peer->foreign ? (size_t)peer->rpc->terms.bytes : peer->rpc->max_answer_bytes;
  if (queued <= most) return false;
  fault_set(fault, LP_RESOURCE_EXHAUSTED,
            "%zu bytes of answers from node %s wait for %s to be read already (%s of %s)", queued,
            peer->rpc->node->name, peer->name, peer->foreign ? "edge_bytes" : "answer_bytes",
            peer->rpc->node->name);
  rpc_met(L, BOUND_ANSWERS, fault->text);
  return true;
}

lp_status server_answer(lua_State *L, call *call, int first, fault *fault) {
  peer *peer = call->peer;
  size_t start, at;
  hole hole = {0};
  if (answers_pile_up(L, peer, fault)) return fault->status;
  buffer *out = peer_write_begin(peer, &start);
  if (!out || !frame_begin_response(out, !peer->foreign, call->id, false, &at)) {
    if (out) peer_write_undo(peer, start);
    return fault_set(fault, LP_RESOURCE_EXHAUSTED, "out of memory");
  }
  lp_status status = put_results(L, peer, first, out, &hole, fault);
  if (status == LP_OK && !peer_write_around(peer, start, &hole))
    status = fault_set(fault, LP_RESOURCE_EXHAUSTED, "out of memory");
  if (status != LP_OK) {
    peer_write_undo(peer, start);
    return status;
  }
  call->failed = false;
  return LP_OK;
}

/* What can raise is done before the frame is begun. */
void server_answer_error(lua_State *L, call *call, int index) {
  peer *peer = call->peer;
  size_t start, at, length = 0;
  const char *text = NULL;
  if (peer->foreign)
    text = luaL_tolstring(L, index, &length);
  else
    remote_prepare(L, index, peer->rpc, call_method(call));
  buffer *out = peer_write_begin(peer, &start);
  if (out && frame_begin_response(out, !peer->foreign, call->id, true, &at) &&
      (text ? frame_put_string(out, text, length) : remote_write(L, peer->rpc, out)) &&
      frame_put_nil(out)) {
    peer_write_end(peer, start);
  } else {
    if (out) peer_write_undo(peer, start);
    peer_break(peer);
  }
  lua_pop(L, 1);
}
