/* See hello.h. */
#include "rpc/hello.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "rpc/circle.h"
#include "rpc/connecting.h"
#include "rpc/health.h"
#include "wire/token.h"

/* The `wanted`-th element of an array at `data`, a number or a string; false: it is not there. */
static bool element(const uint8_t *data, size_t length, unsigned wanted, token *out,
                    const uint8_t **payload) {
  token array;
  if (token_read(data, length, &array) != TOKEN_READ || array.kind != TOKEN_ARRAY) return false;
  if (array.value <= wanted) return false;
  size_t at = array.head;
  for (unsigned i = 0;; i++) {
    if (token_read(data + at, length - at, out) != TOKEN_READ) return false;
    if (token_children(out) > 0 || token_payload(out) > length - at - out->head) return false;
    if (i == wanted) break;
    at += out->head + token_payload(out);
  }
  *payload = data + at + out->head;
  return true;
}

uint32_t hello_id(const uint8_t *params, size_t length) {
  token first;
  const uint8_t *payload;
  if (!element(params, length, 0, &first, &payload) || first.kind != TOKEN_UNSIGNED) return 0;
  return first.value > UINT32_MAX ? 0 : (uint32_t)first.value;
}

/* An element as a number from 0 to `most`; `none`: it is none. */
static int64_t number_at(const uint8_t *params, size_t length, unsigned wanted, int64_t most,
                         int64_t none) {
  token found;
  const uint8_t *payload;
  if (!element(params, length, wanted, &found, &payload)) return none;
  if (found.kind != TOKEN_UNSIGNED) return none;
  return found.value > (uint64_t)most ? most : (int64_t)found.value;
}

static void element_text(const uint8_t *params, size_t length, unsigned wanted, char *out,
                         size_t size) {
  token first;
  const uint8_t *payload;
  *out = 0;
  if (!element(params, length, wanted, &first, &payload) || first.kind != TOKEN_STRING) return;
  snprintf(out, size, "%.*s", first.value > size ? (int)size : (int)first.value, payload);
}

void hello_text(const uint8_t *params, size_t length, char *out, size_t size) {
  element_text(params, length, 0, out, size);
}

void hello_second_text(const uint8_t *params, size_t length, char *out, size_t size) {
  element_text(params, length, 1, out, size);
}

bool hello_put_meta(buffer *out, int64_t left_ns) {
  if (!buffer_reserve(out, HELLO_META_MAX)) return false;
  out->length = (size_t)(hello_put_time(out->data + out->length, left_ns) - out->data);
  return true;
}

int64_t hello_time(const frame *frame) {
  token first;
  const uint8_t *payload;
  if (!frame->meta || !element(frame->meta, frame->meta_length, 0, &first, &payload) ||
      first.kind != TOKEN_UNSIGNED || first.value > HELLO_MOST_US)
    return CLOCK_NEVER;
  return (int64_t)first.value * 1000;
}

/* [version, name of this node, calls and bytes it takes from the other, 1: more fail] */
static bool put_self(buffer *out, const rpc *rpc) {
  const char *name = rpc->node->name;
  return frame_put_array(out, 5) && frame_put_integer(out, HELLO_VERSION) &&
         frame_put_string(out, name, strlen(name)) && frame_put_integer(out, rpc->terms.calls) &&
         frame_put_integer(out, rpc->terms.bytes) && frame_put_integer(out, rpc->terms.fails);
}

/* The other end's terms; what is missing is as by default. */
static terms read_terms(const frame *frame) {
  const uint8_t *at = frame->body;
  size_t length = frame->body_length;
  terms read = {.calls = (uint32_t)number_at(at, length, 2, TERMS_MOST_CALLS, TERMS_CALLS),
                .bytes = number_at(at, length, 3, TERMS_MOST_BYTES, TERMS_BYTES),
                .fails = number_at(at, length, 4, 1, 0)};
  if (read.calls == 0) read.calls = 1; /* nobody could ever call */
  if (read.bytes == 0) read.bytes = 1;
  return read;
}

bool hello_send(peer *peer) {
  buffer *out = stream_out(peer->wire.stream);
  size_t start;
  if (!frame_begin_request(out, false, 0, HELLO_METHOD, strlen(HELLO_METHOD), false, &start) ||
      !put_self(out, peer->rpc))
    return false;
  frame_end(out, false, start);
  return true;
}

/* From now on this is an engine speaking to an engine. */
static void greeted(peer *peer, const frame *frame) {
  peer_grant(peer, read_terms(frame));
  mem_free(peer->farewell);
  peer->farewell = NULL;
  peer->foreign = peer->again = false;
  peer->trouble = PEER_WELL;
  peer_set_end(peer, LP_OK, NULL);
  peer->splitter.wrapped = true;
  peer->state = PEER_OPEN;
}

lp_status hello_answered(peer *peer, const frame *frame, fault *fault) {
  if (frame->kind != FRAME_RESPONSE || frame->error || frame->id != 0)
    return fault_set(fault, LP_FAILED_PRECONDITION,
                     "the server there does not speak this engine's protocol");
  int64_t version = number_at(frame->body, frame->body_length, 0, UINT32_MAX, 0);
  if (version != HELLO_VERSION)
    return fault_set(fault, LP_FAILED_PRECONDITION,
                     "the engine there speaks version %lld of the protocol, this one %d",
                     (long long)version, HELLO_VERSION);
  greeted(peer, frame);
  return connecting_opened(peer, fault) ? LP_OK : fault->status;
}

lp_status hello_asked(peer *peer, const frame *frame, fault *fault) {
  buffer *out = link_out(&peer->wire);
  size_t start;
  if (!peer->foreign)
    return fault_set(fault, LP_INVALID_ARGUMENT, "the peer greeted a second time");
  if (!out || !frame_begin_response(out, false, frame->id, false, &start) ||
      !put_self(out, peer->rpc))
    return fault_set(fault, LP_RESOURCE_EXHAUSTED, "out of memory");
  frame_end(out, false, start);
  loop_dirty(peer->rpc->node->loop, &peer->flushable);
  char name[64];
  element_text(frame->body, frame->body_length, 1, name, sizeof name);
  char *copy = mem_strdup(name);
  if (copy) {
    mem_free(peer->name);
    peer->name = copy;
  }
  greeted(peer, frame);
  health_greet(peer);
  return LP_OK;
}

/* ---- notifications ---------------------------------------------------------- */

static bool listens(const peer *peer) {
  return peer->state == PEER_OPEN && !peer->foreign;
}

/* Begins one of `count` elements; NULL: memory is out. note_end follows. */
static buffer *note_begin(peer *peer, const char *method, uint32_t count, size_t *start) {
  size_t at;
  buffer *out = peer_write_begin(peer, start);
  if (!out) return NULL;
  if (frame_begin_notify(out, true, method, strlen(method), false, &at) &&
      frame_put_array(out, count))
    return out;
  peer_write_undo(peer, *start);
  return NULL;
}

static bool note_end(peer *peer, size_t start, bool written) {
  if (written) {
    peer_write_end(peer, start);
  } else {
    peer_write_undo(peer, start);
  }
  return written;
}

void hello_credit(peer *peer, uint32_t count, size_t bytes) {
  size_t start;
  if (!listens(peer)) return;
  buffer *out = note_begin(peer, CREDIT_METHOD, 2, &start);
  bool written =
      out && note_end(peer, start,
                      frame_put_integer(out, count) && frame_put_integer(out, (int64_t)bytes));
  if (!written) peer_break(peer); /* credit that is lost would be missing for ever */
}

uint32_t hello_count(const frame *frame) {
  return (uint32_t)number_at(frame->body, frame->body_length, 0, TERMS_MOST_CALLS, 0);
}

size_t hello_bytes(const frame *frame) {
  return (size_t)number_at(frame->body, frame->body_length, 1, TERMS_MOST_BYTES, 0);
}

void hello_bye(peer *peer, const char *text) {
  size_t start;
  buffer *out = listens(peer) ? note_begin(peer, BYE_METHOD, 1, &start) : NULL;
  if (out) note_end(peer, start, frame_put_string(out, text, strlen(text)));
}

void hello_cancel(peer *peer, uint32_t id) {
  size_t start;
  buffer *out = listens(peer) ? note_begin(peer, CANCEL_METHOD, 1, &start) : NULL;
  if (out) note_end(peer, start, frame_put_integer(out, id));
}

void hello_health(peer *peer, bool healthy) {
  size_t start;
  buffer *out = listens(peer) ? note_begin(peer, HEALTH_METHOD, 1, &start) : NULL;
  if (out) note_end(peer, start, frame_put_integer(out, healthy));
}

void hello_held(peer *peer, uint32_t id, const char *list) {
  size_t start;
  buffer *out = listens(peer) ? note_begin(peer, CIRCLE_METHOD, 2, &start) : NULL;
  if (out)
    note_end(peer, start, frame_put_integer(out, id) && frame_put_string(out, list, strlen(list)));
}
