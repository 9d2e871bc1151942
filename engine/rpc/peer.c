/* One end of a conversation; see peer.h. What goes out is appended to the link's buffer
 * and flushed once per turn; what comes in is split into frames, and all frames of one
 * read are taken apart inside one protected call on the node's main state. */
#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hot.h"
#include "base/memory.h"
#include "rpc/adopt.h"
#include "rpc/circle.h"
#include "rpc/client.h"
#include "rpc/connecting.h"
#include "rpc/health.h"
#include "rpc/hello.h"
#include "rpc/inbox.h"
#include "rpc/peer_faults.h"
#include "rpc/pending.h"
#include "rpc/server.h"
#include "runtime/engine.h"

/* From here on all ids have one length on the wire, the one that is read fastest. */
enum { FIRST_ID = 1 << 16 };
enum { PIPE_PATIENCE_NS = 20000, STREAM_PATIENCE_NS = 50000 };

static void peer_flush(flushable *item) {
  peer *peer = list_entry(item, struct peer, flushable);
  peer->written = 0;
  if (!link_is_open(&peer->wire)) return;
  if (peer->broken) {
    peer_down(peer, LP_RESOURCE_EXHAUSTED, "memory was out on one side");
    return;
  }
  if (!link_flush(&peer->wire)) peer_down(peer, LP_UNAVAILABLE, "the other end is gone");
}

/* In memory another loop is kept waiting, over a socket every early flush is a system call more.
 * A node of the same loop could not begin anyway. */
static int64_t peer_patience(const flushable *item) {
  const pipe_end *pipe = list_entry(item, struct peer, flushable)->wire.pipe;
  if (!pipe) return STREAM_PATIENCE_NS;
  return pipe_crosses(pipe) ? PIPE_PATIENCE_NS : CLOCK_NEVER;
}

/* Should the other end be gone, the flush at the end of the turn tells. */
void peer_hand_over(peer *peer) {
  pipe_end *pipe = peer->wire.pipe;
  peer->written = 0;
  if (pipe && pipe_crosses(pipe) && pipe_hand_over(pipe) && pipe_is_flushed(pipe))
    list_remove(&peer->flushable.link);
}

/* ---- life ------------------------------------------------------------------- */

peer *peer_new(rpc *rpc, const char *target, const char *name) {
  peer *made = mem_new(sizeof *made);
  if (!made) return NULL;
  made->rpc = rpc;
  made->references = 1;
  made->target = mem_strdup(target);
  made->name = mem_strdup(name);
  made->on_close = LUA_NOREF;
  made->flushable.flush = peer_flush;
  made->flushable.patience = peer_patience;
  made->granted = TERMS_DEFAULT;
  made->granted.calls = peer_window(TERMS_CALLS);
  made->window = made->granted.calls;
  made->window_bytes = made->granted.bytes;
  made->made.off = made->served.off = rpc->node->engine->metrics_off;
  made->next_id = fault_point_setting(FAULT_FIRST_ID, FIRST_ID);
#ifdef LP_FAULTS
  list_init(&made->late_frames);
#endif
  list_init(&made->link);
  list_init(&made->flushable.link);
  list_init(&made->waiters);
  frame_splitter_init(&made->splitter, true, rpc->codec.limits.message_bytes);
  if (!made->name || (target && !made->target)) {
    peer_unref(made);
    return NULL;
  }
  list_push(&rpc->peers, &made->link);
  if (target) hash_put(&rpc->by_target, &made->by_target, hash_text(target));
  return made;
}

peer *peer_ref(peer *peer) {
  peer->references++;
  return peer;
}

void peer_unref(peer *peer) {
  if (!peer || --peer->references > 0) return;
  peer->references = 2; /* of a node that dies: `connecting` has one itself */
  connecting_end(peer);
  list_remove(&peer->link);
  hash_remove(&peer->rpc->by_target, &peer->by_target);
  list_remove(&peer->flushable.link);
  peer_faults_forget(peer);
  link_close(&peer->wire);
  frame_splitter_fini(&peer->splitter);
  link_meter_fini(&peer->made);
  link_meter_fini(&peer->served);
  mem_free(peer->slots);
  mem_free(peer->target);
  mem_free(peer->name);
  mem_free(peer->end_text);
  mem_free(peer->farewell);
  mem_free(peer);
}

peer *peer_get(rpc *rpc, const char *target, const char *name) {
  hash_link *link = hash_find(&rpc->by_target, hash_text(target));
  for (; link; link = hash_again(link)) {
    peer *known = list_entry(link, peer, by_target);
    if (strcmp(known->target, target) == 0) return peer_ref(known);
  }
  return peer_new(rpc, target, name);
}

void peer_set_end(peer *peer, lp_status status, const char *text) {
  char *copy = mem_strdup(text);
  mem_free(peer->end_text);
  peer->end_text = copy;
  peer->end_status = status;
}

/* Better words for why a node cannot be reached, when this process knows them. */
static void explain_end(peer *peer, char *text, size_t size) {
  place place = {0};
  fault fault;
  if (!peer->target) return;
  lp_status status = engine_find(peer->rpc->node->engine, peer->target, &place, &fault);
  mailbox_unref(place.box);
  if (status != LP_UNAVAILABLE) return;
  snprintf(text, size, "%s", fault.text);
  peer->trouble = PEER_GONE;
}

void peer_break(peer *peer) {
  if (!link_is_open(&peer->wire)) return;
  peer->broken = true;
  loop_dirty(peer->rpc->node->loop, &peer->flushable);
}

typedef struct ending {
  peer *peer;
  pending *call;
  lp_status status;
  const char *text;
} ending;

static int end_call(lua_State *L) {
  ending *ending = lua_touserdata(L, 1);
  client_fail(L, ending->call, ending->status, ending->text);
  return 0;
}

static int tell_closed(lua_State *L) {
  ending *ending = lua_touserdata(L, 1);
  lua_rawgeti(L, LUA_REGISTRYINDEX, ending->peer->on_close);
  lua_pushstring(L, ending->text);
  rpc_spawn(L, 1);
  return 0;
}

/* Tells the Lua side. What it is not told it would wait for without end. */
static void end_link(peer *peer, ending *ending) {
  node *node = peer->rpc->node;
  fault fault;
  if (peer->on_close == LUA_NOREF) return;
  if (!node_enter(node, tell_closed, ending, &fault)) {
    node_set_end(node, fault.status, fault.text);
    node->killed = true;
    node_ready(node);
  }
  luaL_unref(node->L, LUA_REGISTRYINDEX, peer->on_close);
  peer->on_close = LUA_NOREF;
}

void peer_fail_call(peer *peer, pending *call, lp_status status, const char *text) {
  ending ending = {peer, call, status, text};
  if (!node_enter(peer->rpc->node, end_call, &ending, NULL)) client_lose(peer->rpc, call);
}

/* Fails what waits, each call by itself: one may not find memory where the next does. What is
 * still to be sent waits on. */
static void end_calls(peer *peer, lp_status status, const char *text) {
  ending ending = {peer, NULL, status, text};
  for (uint32_t i = 0; i < peer->slot_count; i++) {
    pending *call = peer->slots[i];
    if (call && !connecting_has(peer, call)) peer_fail_call(peer, call, status, text);
  }
  peer_wake(peer);
  end_link(peer, &ending);
}

void peer_reset_splitter(peer *peer) {
  frame_splitter_fini(&peer->splitter);
  frame_splitter_init(&peer->splitter, true, peer->rpc->codec.limits.message_bytes);
}

/* Nothing of the link that was is left, or is to be expected. */
static void forget_link(peer *peer) {
  peer->session++;
  peer_faults_forget(peer);
  link_close(&peer->wire);
  peer_reset_splitter(peer);
  peer->again = peer->unhealthy = false;
  peer->frame_start = 0;
  peer->window = peer->granted.calls;
  peer->window_bytes = peer->granted.bytes;
  peer->consumed_bytes = 0;
  peer->consumed = 0;
  peer->late = 0;
  peer->late_bytes = 0;
  peer->broken = false;
}

/* The words callers are told. */
static void describe_end(peer *peer, const char *reason, char *text, size_t size) {
  char why[FAULT_TEXT];
  bool unreached = peer->state != PEER_OPEN;
  const char *known = unreached && peer->farewell ? peer->farewell
                      : unreached                 ? NULL
                                                  : peer->end_text;
  snprintf(why, sizeof why, "%s", known ? known : reason);
  explain_end(peer, why, sizeof why);
  if (peer_is_address(peer))
    snprintf(text, size, "%s is unavailable: %s", peer->name, why);
  else
    snprintf(text, size, "node %s is unavailable: %s", peer->name, why);
}

void peer_down(peer *peer, lp_status status, const char *reason) {
  if (peer->state == PEER_IDLE || peer->state == PEER_CLOSED) return;
  char text[FAULT_TEXT + 64];
  describe_end(peer, reason, text, sizeof text);
  peer_ref(peer);
  bool broke = peer->state == PEER_OPEN && status == LP_UNAVAILABLE;
  bool wanted = broke && connecting_rescue(peer);
  peer_set_end(peer, status, text);
  server_orphan(peer);
  bool accepted = peer->accepted;
  peer->state = accepted ? PEER_CLOSED : wanted ? PEER_CONNECTING : PEER_IDLE;
  forget_link(peer);
  if (wanted) {
    connecting_charge(peer);
  } else {
    if (peer->connecting) connecting_lost(peer, text);
    connecting_end(peer);
  }
  end_calls(peer, status, text);
  if (wanted && peer->state == PEER_CONNECTING) peer_try(peer);
  if (accepted) peer_unref(peer); /* the link's own reference */
  peer_unref(peer);
}

/* ---- coming in -------------------------------------------------------------- */

void peer_wake(peer *peer) {
  for (list *link; (link = list_pop(&peer->waiters));) task_wake(list_entry(link, task, link), 0);
}

/* As many waiting callers as there is credit for try again. */
static void wake_waiters(peer *peer) {
  if (peer->window_bytes <= 0) return;
  for (int64_t i = 0; i < peer->window && !list_empty(&peer->waiters); i++)
    task_wake(list_entry(list_pop(&peer->waiters), task, link), 0);
}

HOT_SHARED void peer_answered(peer *peer, size_t bytes) {
  peer->window++;
  peer->window_bytes += (int64_t)bytes;
  if (UNLIKELY(!list_empty(&peer->waiters))) wake_waiters(peer);
}

HOT_SHARED void peer_credit(peer *peer, uint32_t count, size_t bytes) {
  int64_t missing = peer->granted.calls - peer->window;
  int64_t missing_bytes = peer->granted.bytes - peer->window_bytes;
  peer->window += count < missing ? count : missing;
  peer->window_bytes += (int64_t)bytes < missing_bytes ? (int64_t)bytes : missing_bytes;
  if (!list_empty(&peer->waiters)) wake_waiters(peer);
}

void peer_grant(peer *peer, terms terms) {
  terms.calls = peer_window(terms.calls);
  peer->window += (int64_t)terms.calls - peer->granted.calls;
  peer->window_bytes += terms.bytes - peer->granted.bytes;
  peer->granted = terms;
  wake_waiters(peer);
}

int64_t peer_sent_at(peer *peer) {
  if (peer->sent_at) return peer->sent_at;
  int64_t now = clock_now(), given = peer->wire.pipe ? pipe_given(peer->wire.pipe) : now;
  return peer->sent_at = given < now ? given : now;
}

static void on_response(lua_State *L, peer *peer, const frame *frame) {
  pending *found = pending_of(peer, frame->id);
  size_t bytes = pending_credit(peer, found);
  if (found) client_answer(L, found, frame); /* else too late: dropped */
  peer_credit(peer, 1, bytes);
}

static bool method_is(const frame *frame, const char *name) {
  return frame->method_length == strlen(name) &&
         memcmp(frame->method, name, frame->method_length) == 0;
}

/* Returns credit for a notification of `bytes`, as answers do for requests. */
static void notify_consumed(peer *peer, size_t bytes) {
  peer->consumed_bytes += bytes;
  peer->consumed++;
  if (peer->foreign) return;
  const terms *terms = &peer->rpc->terms;
  if (peer->consumed < terms->calls / 4 && (int64_t)peer->consumed_bytes < terms->bytes / 4) return;
  hello_credit(peer, peer->consumed, peer->consumed_bytes);
  peer->consumed = 0;
  peer->consumed_bytes = 0;
}

static void on_notify(lua_State *L, peer *peer, const frame *frame, size_t length) {
  if (method_is(frame, CREDIT_METHOD)) {
    peer_credit(peer, hello_count(frame), hello_bytes(frame));
    return;
  }
  if (method_is(frame, CANCEL_METHOD)) {
    server_cancel(peer, hello_id(frame->body, frame->body_length));
    return;
  }
  if (method_is(frame, CIRCLE_METHOD)) {
    circle_told(L, peer, frame);
    return;
  }
  if (method_is(frame, HEALTH_METHOD)) {
    health_told(peer, frame);
    return;
  }
  if (method_is(frame, BYE_METHOD)) {
    char text[FAULT_TEXT];
    hello_text(frame->body, frame->body_length, text, sizeof text);
    peer_set_end(peer, LP_UNAVAILABLE, text);
    mem_free(peer->farewell);
    peer->farewell = mem_strdup(text);
    return;
  }
  notify_consumed(peer, length);
  server_request(L, peer, frame);
}

typedef struct arrival {
  peer *peer;
  const uint8_t *data;
  size_t length;
  bool stored; /* already in the splitter's own buffer */
  lp_status status;
  fault fault;
  lua_State *L;
} arrival;

HOT_INLINE bool take_frame(arrival *arrival, frame *frame, size_t length) {
  peer *peer = arrival->peer;
  if (frame->kind == FRAME_REQUEST && peer->state == PEER_OPEN &&
      inbox_put(arrival->L, peer, frame))
    return true;
  if (frame->timed) arrival->status = frame_take_time(frame, &arrival->fault);
  if (arrival->status != LP_OK) return false;
  if (peer->state == PEER_HELLO) {
    arrival->status = hello_answered(peer, frame, &arrival->fault);
  } else if (frame->kind == FRAME_RESPONSE) {
    on_response(arrival->L, peer, frame);
  } else if (frame->kind == FRAME_NOTIFY) {
    on_notify(arrival->L, peer, frame, length + FRAME_PREFIX);
  } else if (method_is(frame, HELLO_METHOD)) {
    arrival->status = hello_asked(peer, frame, &arrival->fault);
  } else {
    server_request(arrival->L, peer, frame);
  }
  return arrival->status == LP_OK && link_is_open(&peer->wire);
}

HOT_INLINE bool take_opened(arrival *arrival, frame *frame, const uint8_t *data, size_t length) {
  fault_kind injected = peer_fault(arrival->peer, frame, data, length);
  if (injected == INJECT_DROP || injected == INJECT_DELAY) return true;
  if (injected == INJECT_RESET) {
    arrival->status = fault_set(&arrival->fault, LP_UNAVAILABLE, "the link was reset (injected)");
    return false;
  }
  if (injected == INJECT_DUPLICATE) {
    adopt_end(arrival->peer->rpc);
    if (!take_frame(arrival, frame, length)) return false;
  }
  return take_frame(arrival, frame, length);
}

HOT_INLINE bool take_bytes(arrival *arrival, const uint8_t *data, size_t length) {
  frame frame;
  arrival->status = frame_open(data, length, &frame, &arrival->fault);
  return arrival->status == LP_OK && take_opened(arrival, &frame, data, length);
}

/* A frame that was put together and has a long string, which Lua may take over as it lies. */
static bool take_long(arrival *arrival, const uint8_t *data, size_t length) {
  frame frame;
  char kept[ADOPT_KEPT];
  arrival->status = frame_open(data, length, &frame, &arrival->fault);
  if (arrival->status == LP_OK) arrival->status = frame_take_time(&frame, &arrival->fault);
  if (arrival->status != LP_OK) return false;
  adopt_begin(arrival->peer, &frame, kept);
  return take_opened(arrival, &frame, data, length);
}

static bool on_frame(void *owner, const uint8_t *data, size_t length) {
  arrival *arrival = owner;
  if (arrival->peer->splitter.string_length) return take_long(arrival, data, length);
  return take_bytes(arrival, data, length);
}

/* A frame over the limit is skipped; whoever waits for it is told. */
static void on_oversize(void *owner, uint64_t size, const uint8_t *head, size_t length) {
  arrival *arrival = owner;
  char text[128];
  snprintf(text, sizeof text, "message too large: %llu bytes > limit %zu", (unsigned long long)size,
           arrival->peer->splitter.limit_bytes);
  uint32_t id;
  frame_kind kind;
  arrival->peer->rpc->met[BOUND_MESSAGE]++;
  if (!frame_peek(head, length, &kind, &id)) return;
  if (kind == FRAME_NOTIFY) {
    notify_consumed(arrival->peer, size + FRAME_PREFIX);
    return;
  }
  if (kind == FRAME_REQUEST) {
    server_refuse(arrival->peer, id, LP_RESOURCE_EXHAUSTED, text);
    return;
  }
  pending *found = pending_of(arrival->peer, id);
  size_t bytes = pending_credit(arrival->peer, found);
  if (found) client_fail(arrival->L, found, LP_RESOURCE_EXHAUSTED, text);
  peer_credit(arrival->peer, 1, bytes);
}

/* Those that lie whole at the beginning. False: nothing more is to be done. */
HOT_INLINE bool take_whole(arrival *arrival, const frame_splitter *splitter) {
  const uint8_t *at = arrival->data, *end = at + arrival->length;
  frame frame;
  if (!frame_splitter_between(splitter)) return true;
  for (size_t size; (size = frame_next(at, (size_t)(end - at), splitter->limit_bytes, &frame));) {
    const uint8_t *data = at + FRAME_PREFIX;
    at = data + size;
    if (!take_opened(arrival, &frame, data, size)) return false;
  }
  arrival->data = at;
  arrival->length = (size_t)(end - at);
  return at != end;
}

static int take_frames(lua_State *L) {
  arrival *arrival = lua_touserdata(L, 1);
  arrival->L = L;
  frame_splitter *splitter = &arrival->peer->splitter;
  if (!arrival->stored && !take_whole(arrival, splitter)) return 0;
  lp_status status = arrival->stored ? frame_split_stored(splitter, arrival->length, on_frame,
                                                          on_oversize, arrival, &arrival->fault)
                                     : frame_split(splitter, arrival->data, arrival->length,
                                                   on_frame, on_oversize, arrival, &arrival->fault);
  if (arrival->status == LP_OK) arrival->status = status;
  return 0;
}

/* What came is no frame, or not the one that was due. */
static void peer_refused(peer *peer, lp_status status, const char *why) {
  char text[FAULT_TEXT + 64];
  if (peer->state == PEER_HELLO && status == LP_INVALID_ARGUMENT) {
    snprintf(text, sizeof text, "the server there does not speak this engine's protocol: %s", why);
    peer_down(peer, LP_FAILED_PRECONDITION, text);
    return;
  }
  peer_down(peer, status, why);
}

#ifdef LP_FAULTS
static int take_late(lua_State *L) {
  arrival *arrival = lua_touserdata(L, 1);
  frame frame;
  arrival->L = L;
  arrival->status = frame_open(arrival->data, arrival->length, &frame, &arrival->fault);
  if (arrival->status == LP_OK) take_frame(arrival, &frame, arrival->length);
  return 0;
}

void peer_take_late(peer *peer, const uint8_t *data, size_t length) {
  arrival arrival = {.peer = peer, .data = data, .length = length};
  peer->sent_at = clock_now();
  if (!node_enter(peer->rpc->node, take_late, &arrival, &arrival.fault)) {
    arrival.status = arrival.fault.status;
    client_lose(peer->rpc, NULL);
  }
  if (arrival.status != LP_OK) peer_down(peer, arrival.status, arrival.fault.text);
}
#endif

/* The same of one that is simple. */
HOT_INLINE bool quick_response(peer *peer, const frame *frame) {
  pending *found = pending_of(peer, frame->id);
  size_t bytes = found ? found->bytes : 0;
  if (UNLIKELY(!found || !client_answer_quick(found, frame))) return false;
  peer_answered(peer, bytes);
  return true;
}

/* Takes the frames at the beginning for which nothing has to be made in Lua, and so no protected
 * call is needed: nearly all of them, in most programs. */
HOT_INLINE void take_quick(arrival *arrival) {
  peer *peer = arrival->peer;
  rpc *rpc = peer->rpc;
  const uint8_t *at = arrival->data, *end = at + arrival->length;
  frame frame;
  if (fault_point_has_rule(FAULT_FRAME) || arrival->stored || peer->state != PEER_OPEN ||
      !frame_splitter_between(&peer->splitter))
    return;
  size_t limit = peer->splitter.limit_bytes;
  for (size_t size; (size = frame_next(at, (size_t)(end - at), limit, &frame));) {
    bool taken = false;
    if (frame.kind == FRAME_RESPONSE)
      taken = quick_response(peer, &frame);
    else if (frame.kind == FRAME_REQUEST)
      taken = inbox_calm(rpc) && inbox_put(rpc->node->L, peer, &frame);
    if (UNLIKELY(!taken)) break;
    at += FRAME_PREFIX + size;
  }
  arrival->data = at;
  arrival->length = (size_t)(end - at);
}

/* The same of what is left, in a protected call. */
static void take_rest(arrival *arrival) {
  peer *peer = arrival->peer;
  /* Only memory can have run out; the frames behind the one that met it are lost. */
  if (!node_enter(peer->rpc->node, take_frames, arrival, &arrival->fault)) {
    arrival->status = arrival->fault.status;
    client_lose(peer->rpc, NULL);
  }
  adopt_end(peer->rpc);
  if (arrival->status != LP_OK) peer_refused(peer, arrival->status, arrival->fault.text);
}

static void peer_receive(peer *peer, const uint8_t *data, size_t length, bool stored) {
  arrival arrival; /* not cleared: its text costs more than a small frame */
  arrival.peer = peer_ref(peer);
  arrival.data = data;
  arrival.length = length;
  arrival.stored = stored;
  arrival.status = LP_OK;
  peer->served.bytes += length;
  peer->active_at = peer->rpc->node->loop->now;
  peer->sent_at = 0;
  take_quick(&arrival);
  if (stored || arrival.length) take_rest(&arrival);
  peer_unref(peer);
}

static void on_data(void *owner, const uint8_t *data, size_t length) {
  const peer *peer = owner;
  loop *loop = peer->rpc->node->loop;
  loop_came(loop);
  if (peer->wire.pipe && clock_coarse() > pipe_given(peer->wire.pipe)) loop->behind = true;
  peer_receive(owner, data, length, false);
}

static uint8_t *on_space(void *owner, size_t *size) {
  return frame_splitter_space(&((peer *)owner)->splitter, size);
}

static void on_stored(void *owner, size_t length) {
  loop_came(((peer *)owner)->rpc->node->loop);
  peer_receive(owner, NULL, length, true);
}

static void on_close(void *owner, lp_status status, const char *why) {
  peer *peer = owner;
  if (peer->state == PEER_CONNECTING || peer->state == PEER_HELLO)
    peer_missed(peer, status, why);
  else
    peer_down(peer, status, why);
}

/* Of a link that breaks, who dialled wants to know where frames begin. */
static size_t on_forget(void *owner, const uint8_t *data, size_t sent) {
  return ((peer *)owner)->target ? early_boundary(data, sent) : sent;
}

/* A dialled stream is up: greet. */
static void on_open(void *owner) {
  peer *peer = owner;
  peer->state = PEER_HELLO;
  peer->splitter.wrapped = false;
  if (hello_send(peer))
    stream_flush(peer->wire.stream);
  else
    peer_down(peer, LP_RESOURCE_EXHAUSTED, "out of memory");
}

const stream_events peer_events = {
    .on_open = on_open,
    .on_space = on_space,
    .on_stored = on_stored,
    .on_data = on_data,
    .on_close = on_close,
    .on_forget = on_forget,
};

/* ---- writing ---------------------------------------------------------------- */

/* Where frames go now; NULL: nowhere. */
static buffer *peer_out(peer *peer) {
  if (peer->state == PEER_OPEN) return link_is_open(&peer->wire) ? link_out(&peer->wire) : NULL;
  return peer->connecting ? &peer->connecting->early.bytes : NULL;
}

buffer *peer_write_begin(peer *peer, size_t *start) {
  if (peer->frame_start) return NULL; /* from within a pack function */
  buffer *out = peer_out(peer);
  if (!out) return NULL;
  *start = out->length;
  peer->frame_start = out->length + 1;
  return out;
}

void peer_write_end(peer *peer, size_t start) {
  peer_write_sent(peer, peer_out(peer), start);
}

void peer_write_sent(peer *peer, buffer *out, size_t start) {
  frame_end(out, !peer->foreign, start);
  peer->made.bytes += out->length - start;
  peer->frame_start = 0;
  if (peer->state == PEER_OPEN) peer_written(peer);
}

bool peer_sends_around(const peer *peer) {
  return peer->state == PEER_OPEN && !peer->foreign && link_is_clear(&peer->wire);
}

bool peer_write_around(peer *peer, size_t start, const hole *hole) {
  buffer *out = peer_out(peer);
  if (!hole->length) {
    peer_write_sent(peer, out, start);
    return true;
  }
  if (!buffer_reserve(out, hole->length)) return false;
  frame_end_around(out, start, hole->length);
  peer->made.bytes += out->length - start + hole->length;
  peer->frame_start = 0;
  link_flush_around(&peer->wire, hole);
  return true;
}

void peer_write_undo(peer *peer, size_t start) {
  peer->frame_start = 0;
  buffer *out = peer_out(peer);
  if (out) out->length = start;
}
