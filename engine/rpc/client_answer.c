/* The way back of an answer, or of what comes in its place, to the task or future that waits;
 * see client.h. */
#include <lauxlib.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/hot.h"
#include "rpc/client.h"
#include "rpc/future.h"
#include "rpc/native.h"
#include "rpc/pending.h"
#include "rpc/remote.h"
#include "runtime/failure.h"
#include "wire/codec_small.h"

/* Pushes what the response brought on `to`; false when that is an error. */
ASIDE static bool push_answer(lua_State *to, rpc *rpc, const frame *frame, int *count) {
  fault fault;
  *count = 1;
  if (frame->error) {
    remote_read(to, rpc, frame->error, frame->error_length);
    return false;
  }
  if (codec_read(to, frame->body, frame->body_length, &rpc->codec, count, &fault) == LP_OK)
    return true;
  *count = 1;
  failure_push(to, fault.status, fault.text);
  return false;
}

/* From here until answer_end the call is rpc->answering, so that its caller can be told when
 * what comes between raises. (The decoder may run unpack functions, and within one an
 * interrupt may cancel the task: nobody but us may let go of the call.) */
HOT_INLINE void answer_begin(pending *pending) {
  if (pending->task) pending->task->abandon = NULL;
  pending_detach(pending);
  pending->peer->rpc->answering = pending;
}

/* Places a call leaves free on the stack it waits on, of the LUA_MINSTACK it began with. */
enum { WAITER_ROOM = LUA_MINSTACK - 8 };

/* Whoever waits has been given what came. */
HOT_INLINE void answer_over(pending *pending, bool ok) {
  pending->peer->rpc->answering = NULL;
  meter_end(&pending->peer->made, &pending->watch, !ok);
  pending_recycle(pending);
}

/* The `count` values on top of L, results or an error, go to whoever waits. */
static void answer_end(lua_State *L, pending *pending, bool ok, int count) {
  task *task = pending->task;
  if (!task) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, pending->future);
    lua_insert(L, -count - 1);
    future_settle(L, -count - 1, ok, count);
    lua_pop(L, 1);
    luaL_unref(L, LUA_REGISTRYINDEX, pending->future);
  } else if (task->state != TASK_WAITING) {
    lua_pop(L, count); /* cancelled meanwhile */
  } else {
    if (count > WAITER_ROOM && !lua_checkstack(task->waiter, count))
      luaL_error(L, "stack overflow (too many results)");
    lua_xmove(L, task->waiter, count);
    task->failed = !ok;
    task_wake(task, count);
  }
  answer_over(pending, ok);
}

/* An answer that comes behind its deadline is late, also when no timer has said so yet. */
HOT_INLINE bool is_late(const pending *pending) {
  int64_t due = pending_due(pending);
  return due != CLOCK_NEVER && clock_passed(due);
}

/* The same error as if its timer had come first: a task that waits raises its own. */
static void fail_late(lua_State *L, pending *pending) {
  if (!pending->task) {
    char text[FAULT_TEXT + 256];
    const peer *peer = pending->peer;
    bool away = peer->state != PEER_OPEN && peer->end_text;
    snprintf(text, sizeof text, "deadline exceeded: no answer from %s within its time%s%s",
             peer->name, away ? ": " : "", away ? peer->end_text : "");
    client_fail(L, pending, LP_DEADLINE_EXCEEDED, text);
    return;
  }
  answer_begin(pending);
  pending->task->timed_out = true;
  answer_end(L, pending, true, 0);
}

/* A few scalars, straight onto the stack of the task that waits, if it is a task. Should a string
 * find no memory, what lies there already does no harm to the error that follows. */
HOT_INLINE bool answer_small(lua_State *L, pending *pending, const frame *frame) {
  task *task = pending->task;
  const codec *rules = &pending->peer->rpc->codec;
  if (frame->error || (*frame->body & 0x0f) > WAITER_ROOM) return false;
  bool straight = task && task->state == TASK_WAITING;
  lua_State *to = straight ? task->waiter : L;
  int count = codec_read_small(L, to, frame->body, frame->body_length, rules, NULL);
  if (count < 0) return false;
  if (!straight) {
    answer_end(L, pending, true, count);
    return true;
  }
  task->failed = false;
  task_wake(task, count);
  answer_over(pending, true);
  return true;
}

/* A task waits for it, which can be given so many values? */
HOT_INLINE bool takes_quick(const pending *pending, int count) {
  const task *task = pending->task;
  return LIKELY(task && task->state == TASK_WAITING && count <= WAITER_ROOM);
}

/* They are on its stack. */
HOT_INLINE void quick_end(pending *pending, int count) {
  task *task = pending->task;
  answer_begin(pending);
  task->failed = false;
  task_wake(task, count);
  answer_over(pending, true);
}

HOT_SHARED bool client_answer_quick(pending *pending, const frame *frame) {
  if (UNLIKELY(frame->error || !takes_quick(pending, *frame->body & 0x0f) || is_late(pending)))
    return false;
  int count = codec_read_small(NULL, pending->task->waiter, frame->body, frame->body_length,
                               &pending->peer->rpc->codec, NULL);
  if (UNLIKELY(count < 0)) return false;
  quick_end(pending, count);
  return true;
}

HOT_SHARED size_t client_answer_near(pending *pending, lua_State *L, int first, int count) {
  if (UNLIKELY(!takes_quick(pending, count))) return 0;
  size_t bytes =
      codec_copy_small(L, first, count, pending->task->waiter, &pending->peer->rpc->codec);
  if (LIKELY(bytes)) quick_end(pending, count);
  return bytes;
}

HOT_SHARED void client_answer(lua_State *L, pending *pending, const frame *frame) {
  if (is_late(pending)) {
    fail_late(L, pending);
    return;
  }
  if (pending->answered) {
    native_settle(pending, frame, LP_OK, NULL);
    return;
  }
  answer_begin(pending);
  if (answer_small(L, pending, frame)) return;
  int count;
  bool ok = push_answer(L, pending->peer->rpc, frame, &count);
  answer_end(L, pending, ok, count);
}

void client_fail(lua_State *L, pending *pending, lp_status status, const char *text) {
  if (pending->answered) {
    native_settle(pending, NULL, status, text);
    return;
  }
  answer_begin(pending);
  failure_push(L, status, text);
  answer_end(L, pending, false, 1);
}

void client_lose(rpc *rpc, pending *begun) {
  static const char text[] = "not enough memory for the answer";
  lua_State *L = rpc->node->L;
  if (begun && begun->answered) {
    native_settle(begun, NULL, LP_RESOURCE_EXHAUSTED, text);
    return;
  }
  if (begun && !rpc->answering) answer_begin(begun);
  pending *lost = rpc->answering;
  if (!lost) return;
  rpc->answering = NULL;
  meter_end(&lost->peer->made, &lost->watch, true);
  if (lost->task) {
    task_fail(lost->task, LP_RESOURCE_EXHAUSTED, text);
  } else {
    lua_rawgeti(L, LUA_REGISTRYINDEX, lost->future);
    future_abandon(rpc->node, lua_touserdata(L, -1), LP_RESOURCE_EXHAUSTED, text);
    lua_pop(L, 1);
    luaL_unref(L, LUA_REGISTRYINDEX, lost->future);
  }
  pending_recycle(lost);
}

static int expire(lua_State *L) {
  fail_late(L, lua_touserdata(L, 1));
  return 0;
}

void client_expire(pending *late) {
  rpc *rpc = late->peer->rpc;
  pending_give_up(late);
  if (!node_enter(rpc->node, expire, late, NULL)) client_lose(rpc, late);
}
