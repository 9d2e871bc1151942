/* See native.h. The frames are those of client.c and server.c. */
#include "rpc/native.h"

#include "base/clock.h"
#include "rpc/connecting.h"
#include "rpc/hello.h"
#include "rpc/pending.h"
#include "wire/codec.h"

/* ---- answering -------------------------------------------------------------- */

void native_dispatch(peer *peer, const frame *frame, int64_t due) {
  const native_body *body = peer->rpc->native;
  if (!frame_body_whole(frame)) { /* a body in C is given what is well-formed */
    if (frame->kind == FRAME_REQUEST)
      server_refuse(peer, frame->id, LP_INVALID_ARGUMENT, "the arguments are no complete value");
    return;
  }
  call *made = server_begin(peer, frame, due);
  peer->rpc->node->loop->awake = true;
  if (made)
    body->dispatch(body->owner, made, frame);
  else if (frame->kind == FRAME_REQUEST)
    server_refuse(peer, frame->id, LP_RESOURCE_EXHAUSTED, "out of memory");
}

/* To an engine the results are an array; to a foreign peer none is nil, one is itself. */
static bool put_results(const peer *peer, buffer *out, const uint8_t *bytes, size_t length,
                        size_t count) {
  if (peer->foreign && count == 0) return frame_put_nil(out);
  if (peer->foreign && count == 1) return buffer_append(out, bytes, length);
  return frame_put_array(out, (uint32_t)count) && buffer_append(out, bytes, length);
}

static lp_status put_return(call *call, const uint8_t *bytes, size_t length, size_t count,
                            fault *fault) {
  peer *peer = call->peer;
  const codec_limits *limits = &peer->rpc->codec.limits;
  size_t start, at;
  if (length > limits->message_bytes || count > (size_t)limits->values)
    return fault_set(fault, LP_RESOURCE_EXHAUSTED,
                     "too many results: %zu values of %zu bytes (limits %d and %zu)", count, length,
                     limits->values, limits->message_bytes);
  buffer *out = peer_write_begin(peer, &start);
  if (out && frame_begin_response(out, !peer->foreign, call->id, false, &at) &&
      put_results(peer, out, bytes, length, count)) {
    peer_write_end(peer, start);
    return LP_OK;
  }
  if (out) peer_write_undo(peer, start);
  return fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for the results");
}

lp_status native_return(call *call, const uint8_t *bytes, size_t length, size_t count,
                        fault *fault) {
  lp_status status = LP_OK;
  struct fault why;
  if (server_can_answer(call)) status = put_return(call, bytes, length, count, &why);
  if (status == LP_OK) {
    server_release(call);
    return LP_OK;
  }
  if (fault) *fault = why;
  native_fail(call, status, why.text);
  return status;
}

void native_fail(call *call, lp_status status, const char *text) {
  if (server_can_answer(call)) server_refuse(call->peer, call->id, status, text);
  server_release(call);
}

/* ---- calling ---------------------------------------------------------------- */

void native_settle(pending *pending, const frame *frame, lp_status status, const char *text) {
  native_answered answered = pending->answered;
  void *owner = pending->owner;
  pending->peer->rpc->node->loop->awake = true;
  pending_detach(pending);
  if (frame && !frame->error && !frame_body_whole(frame)) {
    frame = NULL;
    status = LP_INVALID_ARGUMENT;
    text = "the results are no complete value";
  }
  answered(owner, frame, status, text);
  pending_recycle(pending);
}

static lp_status put_call(peer *peer, const native_call *call, pending *made, fault *fault) {
  size_t start, at;
  bool timed = made && call->due != CLOCK_NEVER;
  buffer *out = peer_write_begin(peer, &start);
  if (!out) return fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for a call");
  bool put =
      (made
           ? frame_begin_request(out, true, made->id, call->method, call->method_length, timed, &at)
           : frame_begin_notify(out, true, call->method, call->method_length, false, &at)) &&
      frame_put_array(out, (uint32_t)call->count) &&
      buffer_append(out, call->bytes, call->length) &&
      (!timed || hello_put_meta(out, call->due - clock_now()));
  if (!put) {
    peer_write_undo(peer, start);
    return fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for a call");
  }
  size_t bytes = out->length - start;
  peer_write_end(peer, start);
  if (peer->state != PEER_OPEN && !connecting_add(peer, start, made, !call->hasty)) {
    peer_write_undo(peer, start);
    return fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for a call");
  }
  pending_charge(peer, made, meter_get(&peer->rpc->made, call->method, call->method_length), bytes);
  return LP_OK;
}

static lp_status make_call(peer *peer, const native_call *call, fault *fault) {
  if (!call->answered) return put_call(peer, call, NULL, fault);
  pending *made = pending_new(peer);
  if (!made) return fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for a call");
  made->answered = call->answered;
  made->owner = call->owner;
  made->waits = !call->hasty;
  lp_status status = put_call(peer, call, made, fault);
  if (status != LP_OK) {
    pending_free(made);
    return status;
  }
  if (call->due != CLOCK_NEVER)
    timer_start(&peer->rpc->node->loop->timers, &made->timer, call->due);
  return LP_OK;
}

lp_status native_send(peer *peer, const native_call *call, fault *fault) {
  const codec_limits *limits = &peer->rpc->codec.limits;
  if (call->length > limits->message_bytes || call->count > (size_t)limits->values)
    return fault_set(fault, LP_RESOURCE_EXHAUSTED,
                     "too many arguments: %zu values of %zu bytes (limits %d and %zu)", call->count,
                     call->length, limits->values, limits->message_bytes);
  if ((peer->state != PEER_OPEN || call->hasty) && !peer_connect(peer, call->hasty, fault))
    return fault->status;
  if (peer->window <= 0 || peer->window_bytes <= 0) {
    peer->rpc->met[BOUND_EDGE]++;
    return fault_set(fault, LP_RESOURCE_EXHAUSTED,
                     "node %s is full: it takes no more than %lld calls and %lld bytes of calls "
                     "from here at once (its edge_calls and edge_bytes)",
                     peer->name, (long long)peer->granted.calls, (long long)peer->granted.bytes);
  }
  return make_call(peer, call, fault);
}
