/* See server.h. What a call's task ends with becomes the response, whichever way the call came. */
#include <lauxlib.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/hot.h"
#include "base/memory.h"
#include "rpc/control.h"
#include "rpc/held.h"
#include "rpc/hello.h"
#include "rpc/inbox.h"
#include "rpc/methods.h"
#include "rpc/native.h"
#include "rpc/reply.h"
#include "rpc/server.h"
#include "rpc/server_small.h"
#include "runtime/failure.h"

/* ---- the task's end --------------------------------------------------------- */

HOT_SHARED void server_release(call *call) {
  rpc *rpc = call->peer->rpc;
  list_remove(&call->link);
  reply_forget(call);
  if (call->holder) *call->holder = NULL;
  timer_stop(&rpc->node->loop->timers, &call->deadline);
  call->peer->handling--;
  meter_end(&call->peer->served, &call->watch, call->failed);
  peer_unref(call->peer);
  if (rpc->free_call_count >= SERVER_IDLE_CALLS) {
    mem_free(call);
    return;
  }
  call->next = rpc->free_calls;
  rpc->free_calls = call;
  rpc->free_call_count++;
}

/* Is the error at `index` what the stop of the program raised in the task's wait? */
static bool is_of_stop(lua_State *L, const task *task, int index) {
  if (task->cancelled != LP_CANCELLED || !atomic_load(&task->node->stopping)) return false;
  if (!failure_is(L, index)) return false;
  lua_pushliteral(L, "message");
  bool same = lua_rawget(L, index) == LUA_TSTRING && task->raise_text &&
              strcmp(lua_tostring(L, -1), task->raise_text) == 0;
  lua_pop(L, 1);
  return same;
}

/* An error in a notification's handler has nobody to go to: it is logged. */
static void log_error(lua_State *L, const task *task, call *call, int index) {
  if (is_of_stop(L, task, index)) return;
  const char *text = luaL_tolstring(L, index, NULL);
  rpc_log(L, "error in the handler of notification %s: %s", call_method(call), text);
  lua_pop(L, 1);
}

HOT_SHARED void server_less(rpc *rpc) {
  if (rpc->running-- == rpc->max_running && rpc->held) node_attend(rpc->node);
}

/* From its handler's first wait or end on a timer ends it. */
static void await_due(call *call) {
  if (call->due == CLOCK_NEVER) return;
  timer_start(&call->peer->rpc->node->loop->timers, &call->deadline, call->due);
  call->due = CLOCK_NEVER;
}

HOT_SHARED void server_left(call *call, bool later) {
  rpc *rpc = call->peer->rpc;
  if (call->task) call->task->context = NULL;
  call->task = NULL;
  server_less(rpc);
  if (later) {
    list_push(&rpc->deferred, &call->link);
    await_due(call);
  } else {
    server_release(call);
  }
}

/* Answers with the results from `first` up, or with the error that is there: the handler's, or why
 * its results are not sent. */
static void answer(lua_State *L, const task *task, call *call, bool ok, int first) {
  fault fault;
  lp_status status = LP_OK;
  const char *text = fault.text;
  if (ok && task->cancelled == LP_DEADLINE_EXCEEDED) { /* what it made of that is too late */
    status = task->cancelled;
    text = task->raise_text;
  } else if (ok) {
    status = server_answer(L, call, first, &fault);
  }
  if (status != LP_OK) {
    lua_settop(L, first - 1);
    failure_push(L, status, text);
  }
  if (!ok || status != LP_OK) server_answer_error(L, call, first);
}

static void call_done(lua_State *L, task *task, bool ok, int first) {
  call *call = task->context;
  if (!call) { /* a task of the inbox, all of whose calls have ended */
    if (!ok) inbox_failed(task->node->upper);
    return;
  }
  if (ok && server_small_done(L, task, first, lua_gettop(L) - first + 1)) {
    server_left(call, false);
    return;
  }
  bool later = ok && call->reply && task->cancelled == LP_OK;
  luaL_checkstack(L, 8, NULL);
  if (!ok && call->notify) {
    log_error(L, task, call, first);
  } else if (ok && call->reply && !later && server_can_answer(call)) {
    server_refuse(call->peer, call->id, task->cancelled, "nobody waits for the deferred reply");
  } else if (server_can_answer(call) && !later) {
    answer(L, task, call, ok, first);
  } else if (ok && call->notify) {
    call->failed = false;
  }
  server_left(call, later);
}

static void call_lost(task *task, lp_status status, const char *text) {
  call *call = task->context;
  if (!call) {
    inbox_lost(task->node->upper, task);
    return;
  }
  if (!task->started) call->peer->rpc->expired++;
  if (server_can_answer(call)) {
    char words[FAULT_TEXT + 64];
    snprintf(words, sizeof words, "node %s is unavailable: %s", task->node->name, text);
    server_refuse(call->peer, call->id, status, status == LP_UNAVAILABLE ? words : text);
  }
  server_left(call, false);
}

static void call_after(node *node, task *task) {
  call *call = task ? task->context : NULL;
  if (call) await_due(call);
  inbox_go_on(node);
}

const task_kind server_call_kind = {
    .name = "handler", .done = call_done, .lost = call_lost, .after = call_after, .is_call = true};

const call *server_call_of(const task *task) {
  return task->kind == &server_call_kind ? task->context : NULL;
}

call *server_call(lua_State *L) {
  task *task = node_of(L)->current;
  return task && task->kind == &server_call_kind ? task->context : NULL;
}

peer *server_caller(lua_State *L) {
  call *call = server_call(L);
  return call ? call->peer : NULL;
}

/* Requests still held for `peer` (with this id, unless NULL) are forgotten. One whose caller
 * gave up is answered nevertheless: the answer brings the caller's credit back. */
static void held_drop(peer *peer, const uint32_t *id) {
  rpc *rpc = peer->rpc;
  for (held **place = &rpc->held; *place;) {
    held *each = *place;
    bool meant =
        each->peer == peer && each->frame.kind == FRAME_REQUEST && (!id || each->frame.id == *id);
    if (!meant) {
      place = &each->next;
      continue;
    }
    if (id) server_refuse(peer, *id, LP_CANCELLED, "the caller gave up");
    held_remove(rpc, place);
  }
}

/* The handlers of calls from `peer` (of this id, unless NULL): their waits raise from now on,
 * and those that have not begun never do. */
static void cancel_handlers(peer *peer, const uint32_t *id, const char *text) {
  node *node = peer->rpc->node;
  for (int i = 0; i < node->task_slots; i++) {
    task *task = node->tasks[i];
    if (!task || task->state == TASK_IDLE || task->kind != &server_call_kind) continue;
    call *call = task->context;
    if (!call || call->peer != peer || call->notify || (id && call->id != *id) ||
        call->session != peer->session)
      continue;
    if (task->started) {
      task_cancel(task, LP_CANCELLED, text);
    } else { /* came together with its cancellation: it is not run at all */
      task_close(task, LP_CANCELLED, text);
    }
  }
}

void server_cancel(peer *peer, uint32_t id) {
  held_drop(peer, &id);
  inbox_drop(peer, &id);
  reply_end_all(peer->rpc, peer, &id);
  cancel_handlers(peer, &id, "the caller gave up");
}

void server_orphan(peer *peer) {
  held_drop(peer, NULL);
  inbox_drop(peer, NULL);
  reply_end_all(peer->rpc, peer, NULL);
  cancel_handlers(peer, NULL, "the caller is gone");
}

/* ---- dispatch --------------------------------------------------------------- */

/* The caller's time is over: a handler that has not begun is not run, another's waits end. */
static void call_expired(timer *fired) {
  call *late = list_entry(fired, call, deadline);
  if (!late->task) {
    if (server_can_answer(late))
      server_refuse(late->peer, late->id, LP_DEADLINE_EXCEEDED,
                    "deadline exceeded: the caller's time is over");
    server_release(late);
    return;
  }
  if (late->task->started) {
    task_cancel(late->task, LP_DEADLINE_EXCEEDED, "deadline exceeded: the caller's time is over");
    return;
  }
  task_close(late->task, LP_DEADLINE_EXCEEDED, "deadline exceeded before the call began");
}

/* Of a call of call->peer that came at rpc->arrived_at, or now. */
HOT_INLINE void begin_record(call *call, uint32_t id, meter *meter) {
  peer *peer = call->peer;
  rpc *rpc = peer->rpc;
  peer->handling++;
  call->session = peer->session;
  call->id = id;
  call->due = CLOCK_NEVER;
  call->failed = true;
  meter_begin(&peer->served, meter, rpc->node->loop->now, &call->watch);
  if (rpc->arrived_at) call->watch.began = rpc->arrived_at;
  rpc->arrived_at = 0;
}

HOT_SHARED bool server_again(call *call, uint32_t id, meter *meter) {
  peer *peer = call->peer;
  if (UNLIKELY(call->reply || call->holder || timer_running(&call->deadline))) return false;
  meter_end(&peer->served, &call->watch, false);
  peer->handling--;
  server_less(peer->rpc);
  begin_record(call, id, meter);
  return true;
}

HOT_SHARED call *server_call_new(peer *peer, uint32_t id, bool notify, meter *meter) {
  rpc *rpc = peer->rpc;
  call *made = rpc->free_calls;
  if (made) {
    rpc->free_calls = made->next;
    rpc->free_call_count--;
  } else if ((made = mem_alloc(sizeof *made))) {
    list_init(&made->link);
    timer_init(&made->deadline, call_expired);
  } else {
    return NULL;
  }
  made->peer = peer_ref(peer);
  made->notify = notify;
  made->task = NULL;
  made->reply = NULL;
  made->holder = NULL;
  begin_record(made, id, meter);
  return made;
}

static call *call_of(peer *peer, const frame *frame) {
  meter *meter = meter_get(&peer->rpc->served, frame->method, frame->method_length);
  return server_call_new(peer, frame->id, frame->kind == FRAME_NOTIFY, meter);
}

call *server_begin(peer *peer, const frame *frame, int64_t due) {
  call *made = call_of(peer, frame);
  if (!made) return NULL;
  list_push(&peer->rpc->deferred, &made->link);
  if (due != CLOCK_NEVER) timer_start(&peer->rpc->node->loop->timers, &made->deadline, due);
  return made;
}

/* Nobody hears of it that a notification was. */
static void turn_away(peer *peer, const frame *frame, lp_status status, const char *text) {
  peer->rpc->refused++;
  if (frame->kind == FRAME_REQUEST) server_refuse(peer, frame->id, status, text);
}

static void refuse(lua_State *L, peer *peer, const frame *frame, lp_status status,
                   const char *text) {
  turn_away(peer, frame, status, text);
  if (frame->kind != FRAME_REQUEST) rpc_log(L, "notification refused: %s", text);
}

/* What is beyond a bound would fill the log, too: it is told once. */
static void refuse_beyond(lua_State *L, peer *peer, const frame *frame, bound bound,
                          const char *text) {
  turn_away(peer, frame, LP_RESOURCE_EXHAUSTED, text);
  rpc_met(L, bound, text);
}

static void run_call(task *task, call *call, int nargs, int64_t due) {
  rpc *rpc = call->peer->rpc;
  call->task = task;
  task->label = call_method(call);
  task->deadline = due;
  if (due != CLOCK_NEVER) timer_start(&task->node->loop->timers, &call->deadline, due);
  rpc->running++;
  inbox_seal(rpc);
  task_start(task, nargs);
}

/* Makes the task of a call: what is from `first` up to the top is its function with self and
 * arguments. The call is made last, when nothing can raise any more. False: memory is out. */
static bool start_call(lua_State *L, peer *peer, const frame *frame, int first, int64_t due) {
  int values = lua_gettop(L) - first + 1;
  task *task = task_new(L, &server_call_kind, NULL);
  if (!lua_checkstack(task->co, values + 1) || !(task->context = call_of(peer, frame))) {
    task_discard(task);
    return false;
  }
  lua_xmove(L, task->co, values);
  run_call(task, task->context, values - 1, due);
  return true;
}

void server_no_method(const rpc *rpc, const frame *frame, char *text) {
  snprintf(text, FAULT_TEXT, "node %s has no method %.*s", rpc->node->name,
           (int)(frame->method_length < 200 ? frame->method_length : 200), frame->method);
}

static void refuse_unknown(lua_State *L, peer *peer, const frame *frame) {
  char text[FAULT_TEXT];
  server_no_method(peer->rpc, frame, text);
  refuse(L, peer, frame, LP_NOT_FOUND, text);
}

/* A call's values are decoded here and moved to its task, which exists only when they are
 * complete: what raises on the way (memory, an unpack function) leaves nothing behind. */
static void dispatch_plain(lua_State *L, peer *peer, const frame *frame, int64_t due) {
  rpc *rpc = peer->rpc;
  int first = lua_gettop(L) + 1;
  bool reserved = control_wants(peer, frame);
  if (reserved) {
    control_find(L, frame);
  } else if (!methods_find(L, rpc, frame->method, frame->method_length)) {
    refuse_unknown(L, peer, frame);
    return;
  }
  int count;
  fault fault;
  codec codec, *rules = &rpc->codec;
  if (peer->foreign) {
    codec = rpc->codec;
    codec.plain = true;
    rules = &codec;
  }
  if (codec_read(L, frame->body, frame->body_length, rules, &count, &fault) != LP_OK)
    refuse(L, peer, frame, fault.status, fault.text);
  else if (!start_call(L, peer, frame, first, due))
    refuse(L, peer, frame, LP_RESOURCE_EXHAUSTED, "out of memory");
  lua_settop(L, first - 1);
}

typedef struct arrived {
  peer *peer;
  const frame *frame;
  int64_t due;
} arrived;

static int dispatch_arrived(lua_State *L) {
  const arrived *call = lua_touserdata(L, 1);
  dispatch_plain(L, call->peer, call->frame, call->due);
  return 0;
}

/* Where memory is bounded its end is to be expected, and must not cost the link with all other
 * calls on it. Elsewhere the machine is out of memory; calls are not slowed down for that. */
static void dispatch(lua_State *L, peer *peer, const frame *frame, int64_t due) {
  const node *node = peer->rpc->node;
  if (peer->rpc->native) {
    native_dispatch(peer, frame, due);
    return;
  }
  if (!node->memory_limit) {
    dispatch_plain(L, peer, frame, due);
    return;
  }
  arrived call = {.peer = peer, .frame = frame, .due = due};
  lua_pushcfunction(L, dispatch_arrived);
  lua_pushlightuserdata(L, &call);
  int status = lua_pcall(L, 1, 0, 0);
  if (status == LUA_OK) return;
  if (status != LUA_ERRMEM) lua_error(L);
  lua_pop(L, 1);
  char text[FAULT_TEXT];
  snprintf(text, sizeof text, "node %s has no memory for the call (its memory_limit)", node->name);
  refuse(L, peer, frame, LP_RESOURCE_EXHAUSTED, text);
}

/* Is the method one of those that answer whatever the limits say? */
static bool has_priority(lua_State *L, const rpc *rpc, const frame *frame) {
  if (rpc->priority == LUA_NOREF) return false;
  lua_rawgeti(L, LUA_REGISTRYINDEX, rpc->priority);
  lua_pushlstring(L, frame->method, frame->method_length);
  bool found = lua_rawget(L, -2) != LUA_TNIL;
  lua_pop(L, 2);
  return found;
}

static bool has_room(const rpc *rpc) {
  return rpc->max_running == 0 || rpc->running < rpc->max_running;
}

static void refuse_full(lua_State *L, peer *peer, const frame *frame) {
  char text[FAULT_TEXT];
  snprintf(text, sizeof text, "node %s has %d calls waiting already (its max_pending)",
           peer->rpc->node->name, peer->rpc->max_held);
  refuse_beyond(L, peer, frame, BOUND_PENDING, text);
}

static void refuse_bytes(lua_State *L, peer *peer, const frame *frame) {
  char text[FAULT_TEXT];
  snprintf(text, sizeof text,
           "node %s has %zu bytes of calls waiting already, and %zu is its max_pending_bytes",
           peer->rpc->node->name, peer->rpc->held_bytes, peer->rpc->max_held_bytes);
  refuse_beyond(L, peer, frame, BOUND_PENDING_BYTES, text);
}

/* Who speaks without hello knows of no credit: what is beyond it is refused. */
static void refuse_bare(lua_State *L, peer *peer, const frame *frame) {
  char text[FAULT_TEXT];
  snprintf(text, sizeof text, "node %s handles %u calls of this link already (its edge_calls)",
           peer->rpc->node->name, (unsigned)peer->handling);
  refuse_beyond(L, peer, frame, BOUND_BARE, text);
}

static void refuse_closed(lua_State *L, peer *peer, const frame *frame) {
  char text[FAULT_TEXT];
  snprintf(text, sizeof text, "node %s has no methods that others can call", peer->rpc->node->name);
  refuse(L, peer, frame, LP_NOT_FOUND, text);
}

/* Dispatches a request, or keeps it, or refuses it because too many are kept. */
static void admit(lua_State *L, peer *peer, const frame *frame, int64_t due) {
  rpc *rpc = peer->rpc;
  if (rpc->closed) {
    refuse_closed(L, peer, frame);
  } else if (peer->foreign && peer->handling >= rpc->terms.calls) {
    refuse_bare(L, peer, frame);
  } else if (rpc->serving && ((has_room(rpc) && !rpc->held) || has_priority(L, rpc, frame))) {
    dispatch(L, peer, frame, due);
  } else if (rpc->max_held > 0 && rpc->held_count >= rpc->max_held) {
    refuse_full(L, peer, frame);
  } else if (rpc->held_bytes > rpc->max_held_bytes) {
    refuse_bytes(L, peer, frame);
  } else if (!held_keep(peer, frame, due)) {
    refuse(L, peer, frame, LP_RESOURCE_EXHAUSTED, "out of memory");
  }
}

void server_request(lua_State *L, peer *peer, const frame *frame) {
  rpc *rpc = peer->rpc;
  int64_t left = hello_time(frame);
  int64_t due = left == CLOCK_NEVER ? left : peer_sent_at(peer) + left;
  if (control_wants(peer, frame)) {
    dispatch(L, peer, frame, due);
    return;
  }
  int state = atomic_load_explicit(&rpc->node->state, memory_order_relaxed);
  if (state < NODE_DRAINING && !rpc->stopped) {
    admit(L, peer, frame, due);
    return;
  }
  char text[FAULT_TEXT];
  snprintf(text, sizeof text, "node %s is unavailable: %s", rpc->node->name,
           rpc->stopped ? "it has stopped its server" : "it has finished");
  refuse(L, peer, frame, LP_UNAVAILABLE, text);
}

/* A request that was held long enough for its caller to have gone is not run. */
static void dispatch_held(lua_State *L, held *next) {
  bool gone = next->session != next->peer->session; /* a notification holds all the same */
  if (gone && next->frame.kind == FRAME_REQUEST) return;
  if (next->due > clock_now()) {
    rpc *rpc = next->peer->rpc;
    rpc->arrived_at = next->arrived_at;
    dispatch(L, next->peer, &next->frame, next->due);
    return;
  }
  next->peer->rpc->expired++;
  refuse(L, next->peer, &next->frame, LP_DEADLINE_EXCEEDED,
         "deadline exceeded before the call began");
}

void server_continue(lua_State *L, rpc *rpc) {
  while (rpc->serving && rpc->held && has_room(rpc)) {
    dispatch_held(L, rpc->held);
    held_remove(rpc, &rpc->held); /* only now: dispatch may raise */
  }
}

void server_close(lua_State *L, rpc *rpc) {
  rpc->closed = true;
  while (rpc->held) {
    const held *first = rpc->held;
    if (first->session == first->peer->session || first->frame.kind != FRAME_REQUEST)
      refuse_closed(L, first->peer, &first->frame);
    held_remove(rpc, &rpc->held);
  }
}

/* What came before the limits were known is brought under them: priority methods run, and
 * behind those that run at once only so many may wait. */
void server_open(lua_State *L, rpc *rpc) {
  rpc->serving = true;
  for (held **place = &rpc->held; *place;) {
    if (has_priority(L, rpc, &(*place)->frame)) {
      dispatch_held(L, *place);
      held_remove(rpc, place);
    } else {
      place = &(*place)->next;
    }
  }
  server_continue(L, rpc);
  int kept = 0;
  for (held **place = &rpc->held; *place;) {
    if (rpc->max_held == 0 || kept++ < rpc->max_held) {
      place = &(*place)->next;
    } else {
      refuse_full(L, (*place)->peer, &(*place)->frame);
      held_remove(rpc, place);
    }
  }
}

void server_forget(rpc *rpc) {
  inbox_forget(rpc);
  for (held *each = rpc->held, *next; each; each = next) {
    next = each->next;
    if (each->session == each->peer->session && each->frame.kind == FRAME_REQUEST)
      server_refuse_ended(each->peer, each->frame.id);
    each->peer->handling--;
    peer_unref(each->peer);
    mem_free(each);
  }
  rpc->held = NULL;
  rpc->held_end = &rpc->held;
  rpc->held_count = 0;
  rpc->held_bytes = 0;
  reply_end_all(rpc, NULL, NULL);
}
