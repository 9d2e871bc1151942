/* See inbox.h. */
#include "rpc/inbox.h"

#include <lauxlib.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/hot.h"
#include "rpc/hello.h"
#include "rpc/methods.h"
#include "rpc/server_small.h"
#include "wire/codec_small.h"

enum {
  LONGEST = 4096,       /* of a request here, */
  MOST_BYTES = 1 << 20, /* and of all since it was empty */
  KEEP_BYTES = 1 << 16, /* of an empty buffer */
  METHOD_VALUES = 2,    /* a task keeps its method's function and self at 1 and 2 of its stack; */
  LEFT_VALUES = 12      /* so much of what is over may lie there beside */
};

/* Followed by the bytes of the method's name and of the body, up to the next multiple of 8. */
typedef struct entry {
  peer *peer; /* a reference; NULL: dropped */
  int64_t arrived;
  int64_t time;     /* when the caller's is over; CLOCK_NEVER: never; with `timed` when it began */
  uint32_t session; /* of the peer when it came */
  uint32_t id;
  uint32_t method_length, body_length;
  bool timed; /* how long it is follows the body */
} entry;

static inline entry *entry_at(const buffer *bytes, size_t at) {
  return (entry *)(void *)(bytes->data + at);
}

static inline size_t entry_size(const entry *entry) {
  return (sizeof *entry + entry->method_length + entry->body_length + 7) & ~(size_t)7;
}

static inline const char *entry_method(const entry *entry) {
  return (const char *)(entry + 1);
}

static inline const uint8_t *entry_body(const entry *entry) {
  return (const uint8_t *)entry_method(entry) + entry->method_length;
}

static void entry_frame(const entry *entry, frame *out) {
  *out = (frame){.kind = FRAME_REQUEST,
                 .id = entry->id,
                 .method = entry_method(entry),
                 .method_length = entry->method_length,
                 .body = entry_body(entry),
                 .body_length = entry->body_length,
                 .timed = entry->timed};
}

/* The same with the caller's time taken off the body: when it is over, or CLOCK_NEVER. */
static lp_status entry_open(const entry *entry, frame *out, int64_t *due, fault *fault) {
  entry_frame(entry, out);
  lp_status status = frame_take_time(out, fault);
  int64_t left = status == LP_OK ? hello_time(out) : CLOCK_NEVER;
  *due = !entry->timed ? entry->time : left == CLOCK_NEVER ? left : entry->time + left;
  return status;
}

/* ---- coming in --------------------------------------------------------------- */

static void start_task(lua_State *L, rpc *rpc);

/* Would it begin at once? */
static inline bool admits(const rpc *rpc) {
  return rpc->serving && !rpc->held && !rpc->stopped && !rpc->inbox.sealed &&
         (rpc->max_running == 0 || rpc->running < rpc->max_running) &&
         atomic_load_explicit(&rpc->node->state, memory_order_relaxed) < NODE_DRAINING;
}

/* The time, or of a busy link when the turn began. */
static inline int64_t arrival(const peer *peer) {
  return meter_times_all(&peer->served) ? clock_now() : peer->rpc->node->loop->now;
}

/* Is a request of this method for here? Has room made for `bytes` behind the next entry. */
HOT_INLINE bool takes(peer *peer, const char *method, size_t length, size_t bytes) {
  const rpc *rpc = peer->rpc;
  buffer *held = &peer->rpc->inbox.bytes;
  return LIKELY(!peer->foreign && admits(rpc) && !methods_reserved(method, length) &&
                !rpc->node->memory_limit && !rpc->native && held->length <= MOST_BYTES) &&
         LIKELY(buffer_reserve(held, sizeof(entry) + bytes + 8));
}

/* The entry whose name and body lie in its place is there. */
HOT_INLINE void put_in(peer *peer, const entry *made) {
  rpc *rpc = peer->rpc;
  rpc->inbox.bytes.length += entry_size(made);
  rpc->inbox.count++;
  peer->handling++;
  rpc->running++;
}

HOT_SHARED bool inbox_put(lua_State *L, peer *peer, const frame *frame) {
  rpc *rpc = peer->rpc;
  inbox *inbox = &rpc->inbox;
  size_t length = frame->method_length + frame->body_length;
  if (UNLIKELY(frame->meta || length > LONGEST ||
               !takes(peer, frame->method, frame->method_length, length)))
    return false;
  if (UNLIKELY(!inbox->next)) start_task(L, rpc);
  entry *made = entry_at(&inbox->bytes, inbox->bytes.length);
  *made = (entry){peer_ref(peer),
                  arrival(peer),
                  frame->timed ? peer_sent_at(peer) : CLOCK_NEVER,
                  peer->session,
                  frame->id,
                  (uint32_t)frame->method_length,
                  (uint32_t)frame->body_length,
                  frame->timed};
  bytes_copy((uint8_t *)(made + 1), frame->method, length); /* the body follows the name */
  put_in(peer, made);
  return true;
}

HOT_SHARED uint8_t *inbox_begin(peer *peer, const char *method, size_t length,
                                const uint8_t **stop) {
  const buffer *held = &peer->rpc->inbox.bytes;
  if (UNLIKELY(!inbox_calm(peer->rpc) || !takes(peer, method, length, FRAME_SMALL_ROOM)))
    return NULL;
  uint8_t *at = held->data + held->length + sizeof(entry);
  size_t room = held->capacity - held->length - sizeof(entry) - 8;
  *stop = at + (room < LONGEST ? room : LONGEST);
  bytes_copy_beyond(at, method, length);
  return at + length;
}

HOT_SHARED void inbox_written(peer *peer, uint32_t id, size_t method_length, const uint8_t *end,
                              int64_t due) {
  rpc *rpc = peer->rpc;
  if (UNLIKELY(!rpc->inbox.next)) start_task(rpc->node->L, rpc);
  entry *made = entry_at(&rpc->inbox.bytes, rpc->inbox.bytes.length);
  size_t length = (size_t)(end - (const uint8_t *)(made + 1));
  *made = (entry){peer_ref(peer),
                  arrival(peer),
                  due,
                  peer->session,
                  id,
                  (uint32_t)method_length,
                  (uint32_t)(length - method_length),
                  false};
  put_in(peer, made);
}

/* The next that was not dropped, or NULL. */
static inline entry *first_entry(const inbox *inbox) {
  size_t at = inbox->at;
  if (!inbox->count) return NULL;
  entry *first = entry_at(&inbox->bytes, at);
  while (!first->peer) first = entry_at(&inbox->bytes, at += entry_size(first));
  return first;
}

/* While a task waits to look in here, what came another way is still behind that task. */
static void emptied(inbox *inbox) {
  inbox->at = inbox->bytes.length = 0;
  if (inbox->next) return;
  inbox->sealed = false;
  inbox->cancelled = LP_OK;
}

/* The task that was to take the first has its turn, or will have none. */
static void forget_next(inbox *inbox) {
  inbox->next = NULL;
  if (!inbox->count) emptied(inbox);
}

/* The first is a call now, which has a reference of its own. */
static inline void take_first(inbox *inbox, const entry *first) {
  first->peer->references--;
  first->peer->handling--;
  inbox->at = (size_t)((const uint8_t *)first - inbox->bytes.data) + entry_size(first);
  if (UNLIKELY(--inbox->count == 0)) emptied(inbox);
}

/* Any of them never begins. */
static void drop_entry(inbox *inbox, entry *entry, lp_status status, const char *text) {
  peer *peer = entry->peer;
  rpc *rpc = peer->rpc;
  if (entry->session == peer->session && peer->state == PEER_OPEN)
    server_refuse(peer, entry->id, status, text);
  entry->peer = NULL;
  if (status == LP_RESOURCE_EXHAUSTED)
    rpc->refused++;
  else
    rpc->expired++;
  peer->handling--;
  server_less(rpc);
  if (--inbox->count == 0)
    emptied(inbox);
  else if (entry == entry_at(&inbox->bytes, inbox->at)) /* so that many need not be passed again */
    inbox->at = (size_t)((const uint8_t *)first_entry(inbox) - inbox->bytes.data);
  peer_unref(peer);
}

/* ---- beginning a call -------------------------------------------------------- */

/* Puts function and self of the entry's method where the task keeps them. False: there is none. */
static bool find_method(lua_State *L, rpc *rpc, const task *task, const entry *entry) {
  inbox *inbox = &rpc->inbox;
  int base = lua_gettop(L);
  inbox->owner = NULL;
  if (!methods_find(L, rpc, entry_method(entry), entry->method_length)) return false;
  inbox->method_values = lua_gettop(L) - base;
  if (inbox->method_values > 1) lua_replace(L, 2);
  lua_replace(L, 1);
  meter *meter = meter_get(&rpc->served, entry_method(entry), entry->method_length);
  inbox->meter = meter;
  if (meter && meter->length == entry->method_length && !meter->others) inbox->owner = task;
  return true;
}

/* Those of the call before, for as long as none of its handlers has waited? */
static inline bool is_found(const inbox *inbox, const task *task, const entry *entry) {
  return inbox->owner == task && inbox->meter->length == entry->method_length &&
         bytes_same(inbox->meter->name, entry_method(entry), entry->method_length);
}

/* When the caller's time is over, from what follows the arguments. False: that is nothing this
 * engine writes. */
static inline bool read_due(const entry *entry, const uint8_t *at, const uint8_t *end,
                            int64_t *due) {
  size_t left = (size_t)(end - at);
  token t;
  if (!entry->timed || left < 2 || *at != 0x91 || token_read(at + 1, left - 1, &t) != TOKEN_READ ||
      t.kind != TOKEN_UNSIGNED || t.head != left - 1 || t.value > HELLO_MOST_US)
    return false;
  *due = entry->time + (int64_t)t.value * 1000;
  return true;
}

/* Arguments that are more than a few scalars: unpack functions may run, for long, and what they do
 * may move the inbox, hence the copy. How many were pushed; -1: they cannot be read. */
ASIDE static int read_wide(lua_State *L, rpc *rpc, const entry *entry, int64_t *due, fault *fault) {
  int count, copy = lua_gettop(L) + 1;
  frame frame;
  if (entry_open(entry, &frame, due, fault) != LP_OK) return -1;
  rpc->inbox.owner = NULL; /* also a method may be replaced */
  const char *body = lua_pushlstring(L, (const char *)frame.body, frame.body_length);
  if (codec_read(L, (const uint8_t *)body, frame.body_length, &rpc->codec, &count, fault) != LP_OK)
    return -1;
  lua_remove(L, copy);
  rpc->inbox.moment = 0;
  return count;
}

/* Memory is out for a record of the call. */
COLD static int refuse_first(inbox *inbox, entry *first) {
  first->peer->rpc->arrived_at = 0;
  drop_entry(inbox, first, LP_RESOURCE_EXHAUSTED, "out of memory");
  return -1;
}

COLD static int refuse_begun(call *call, lp_status status, const char *text) {
  rpc *rpc = call->peer->rpc;
  if (status == LP_DEADLINE_EXCEEDED)
    rpc->expired++;
  else
    rpc->refused++;
  if (server_can_answer(call)) server_refuse(call->peer, call->id, status, text);
  server_left(call, false);
  return -1;
}

COLD static int refuse_unknown(call *call, const entry *first) {
  frame frame;
  char text[FAULT_TEXT];
  entry_frame(first, &frame);
  server_no_method(call->peer->rpc, &frame, text);
  return refuse_begun(call, LP_NOT_FOUND, text);
}

/* A record for the call of `first`, which is `task`'s from now on; NULL: memory is out. It may be
 * that of the call before, which is over (or NULL). */
HOT_INLINE call *record_of(task *task, const entry *first, meter *meter, call *over) {
  if (LIKELY(over && over->peer == first->peer && server_again(over, first->id, meter)))
    return over; /* all else is as it was */
  if (over) server_left(over, false);
  call *made = server_call_new(first->peer, first->id, false, meter);
  if (!made) return NULL;
  task->context = made;
  task->label = call_method(made);
  made->task = task;
  return made;
}

/* The first request becomes `task`'s call: its function and arguments are pushed; how many of these
 * behind the function, or -1: it was refused. `over` is the call before, answered and not left, or
 * NULL. It is left before anything may raise, since an error is answered to the task's call. */
HOT_INLINE int begin_first(lua_State *L, task *task, rpc *rpc, entry *first, call *over) {
  inbox *inbox = &rpc->inbox;
  fault fault;
  int64_t due = first->time;
  const uint8_t *body = entry_body(first), *end = body + first->body_length, *rest;
  bool known = is_found(inbox, task, first);
  if (UNLIKELY(!known)) {
    if (over) server_left(over, false);
    over = NULL;
    known = find_method(L, rpc, task, first);
  }
  rpc->arrived_at = first->arrived;
  call *call = record_of(task, first, known ? inbox->meter : NULL, over);
  if (UNLIKELY(!call)) return refuse_first(inbox, first);
  call->session = first->session;
  take_first(inbox, first); /* the bytes stay until something else is put in */
  if (UNLIKELY(!known)) return refuse_unknown(call, first);
  lua_pushvalue(L, 1);
  if (inbox->method_values > 1) lua_pushvalue(L, 2);
  int values = inbox->method_values - 1;
  int count = codec_read_small(L, L, body, first->body_length, &rpc->codec, &rest);
  if (UNLIKELY(count < 0 || ((rest != end || first->timed) && !read_due(first, rest, end, &due)))) {
    if (count > 0) lua_pop(L, count);
    count = read_wide(L, rpc, first, &due, &fault);
    if (count < 0) return refuse_begun(call, fault.status, fault.text);
  }
  if (clock_passed_in(&inbox->moment, due))
    return refuse_begun(call, LP_DEADLINE_EXCEEDED, "deadline exceeded before the call began");
  task->deadline = call->due = due;
  return values + count;
}

/* The same of the first that is not refused; -1: none is left. `over` is left in any case. */
HOT_INLINE int begin_next(lua_State *L, task *task, rpc *rpc, int base, call *over) {
  for (entry *first; (first = first_entry(&rpc->inbox)); over = NULL) {
    int arguments = begin_first(L, task, rpc, first, over);
    if (LIKELY(arguments >= 0)) return arguments;
    lua_settop(L, base);
  }
  if (over) server_left(over, false);
  return -1;
}

/* ---- the task ---------------------------------------------------------------- */

/* May another call begin in this resume? Not when the loop has something to look at. */
static inline bool may_go_on(const node *node) {
  loop *loop = node->loop;
  return !node->killed && !node->paused && !node->interrupted && !node->stop_pending &&
         !node->timeslice && !atomic_load_explicit(&loop->interrupt, memory_order_relaxed) &&
         ++loop->since_look < loop->look_every;
}

static int call_returned(lua_State *L, int status, lua_KContext context);

/* The handler's results are on the stack above `base`. Goes on with the next call, or leaves the
 * results to the task's end, which knows every other way to answer. What was answered is not popped
 * each time. */
HOT_INLINE int after_call(lua_State *L, rpc *rpc, int base) {
  task *task = rpc->node->current;
  int top;
  while (LIKELY(server_small_done(L, task, base + 1, (top = lua_gettop(L)) - base))) {
    call *over = task->context;
    if (UNLIKELY(!may_go_on(rpc->node))) {
      server_left(over, false);
      return 0;
    }
    task_again(task);
    if ((base = top) > LEFT_VALUES) lua_settop(L, base = METHOD_VALUES);
    int arguments = begin_next(L, task, rpc, base, over);
    if (UNLIKELY(arguments < 0)) return 0;
    lua_callk(L, arguments, LUA_MULTRET, base, call_returned);
  }
  return top - base;
}

/* The same of a handler that has waited. What has come meanwhile is another task's: calls that came
 * before it, by another way, may not have begun yet. */
static int call_returned(lua_State *L, int status, lua_KContext base) {
  (void)status;
  rpc *rpc = rpc_of(L);
  task *task = rpc->node->current;
  int count = lua_gettop(L) - (int)base;
  rpc->inbox.owner = NULL;
  if (!server_small_done(L, task, (int)base + 1, count)) return count;
  server_left(task->context, false);
  return 0;
}

/* The function of the task. */
static int take_calls(lua_State *L) {
  rpc *rpc = rpc_of(L);
  inbox *inbox = &rpc->inbox;
  task *task = rpc->node->current;
  inbox->owner = NULL;
  inbox->moment = 0;
  if (task->cancelled != LP_OK) { /* that was meant for all that had not begun */
    inbox->cancelled = task->cancelled;
    inbox->cancelled_text = task->raise_text;
  }
  forget_next(inbox);
  luaL_checkstack(L, LEFT_VALUES + METHOD_VALUES + CODEC_SMALL, NULL); /* for small requests */
  lua_settop(L, METHOD_VALUES);
  int arguments = begin_next(L, task, rpc, METHOD_VALUES, NULL);
  if (arguments < 0) return 0;
  lua_callk(L, arguments, LUA_MULTRET, METHOD_VALUES, call_returned);
  return after_call(L, rpc, METHOD_VALUES);
}

/* One that goes on with what others had begun comes before what was sealed out. Else it is the last
 * of the node's tasks: those that wake up must have their turn however many calls keep coming. */
static void start_task(lua_State *L, rpc *rpc) {
  inbox *inbox = &rpc->inbox;
  task *task = task_new(L, &server_call_kind, NULL);
  lua_pushcfunction(task->co, take_calls);
  task_start(task, 0);
  if (inbox->sealed) task_hurry(task);
  inbox->next = task;
  if (inbox->cancelled != LP_OK) task_cancel(task, inbox->cancelled, inbox->cancelled_text);
}

static int go_on(lua_State *L) {
  start_task(L, lua_touserdata(L, 1));
  return 0;
}

static void drop_all(inbox *inbox, lp_status status, const char *text) {
  for (entry *first; (first = first_entry(inbox));) drop_entry(inbox, first, status, text);
}

void inbox_go_on(node *node) {
  rpc *rpc = node->upper;
  inbox *inbox = &rpc->inbox;
  if (!inbox->count) {
    if (inbox->bytes.capacity > KEEP_BYTES) buffer_fini(&inbox->bytes);
    return;
  }
  if (!inbox->next && !node_enter(node, go_on, rpc, NULL))
    drop_all(inbox, LP_RESOURCE_EXHAUSTED, "out of memory");
}

void inbox_lost(rpc *rpc, const task *task) {
  if (rpc->inbox.next == task) forget_next(&rpc->inbox);
}

void inbox_failed(rpc *rpc) {
  entry *first = first_entry(&rpc->inbox);
  if (first) refuse_first(&rpc->inbox, first);
}

/* ---- leaving ----------------------------------------------------------------- */

bool inbox_drop(peer *peer, const uint32_t *id) {
  inbox *inbox = &peer->rpc->inbox;
  for (size_t at = inbox->at; inbox->count && at < inbox->bytes.length;) {
    entry *each = entry_at(&inbox->bytes, at);
    at += entry_size(each);
    if (each->peer != peer || each->session != peer->session || (id && each->id != *id)) continue;
    drop_entry(inbox, each, LP_CANCELLED, id ? "the caller gave up" : "the caller is gone");
    if (id) return true;
  }
  return false;
}

void inbox_forget(rpc *rpc) {
  char text[FAULT_TEXT + 64];
  server_ended(rpc, text);
  drop_all(&rpc->inbox, LP_UNAVAILABLE, text);
  buffer_fini(&rpc->inbox.bytes);
}

void inbox_each(const rpc *rpc, inbox_fn fn, void *owner) {
  const buffer *bytes = &rpc->inbox.bytes;
  for (size_t at = rpc->inbox.at; at < bytes->length;) {
    const entry *each = entry_at(bytes, at);
    frame frame;
    fault fault;
    int64_t due;
    at += entry_size(each);
    if (!each->peer) continue;
    entry_open(each, &frame, &due, &fault);
    fn(owner, each->peer, &frame, each->arrived, due);
  }
}
