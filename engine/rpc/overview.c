/* See overview.h. Here: the node's state and its tasks. */
#include "rpc/overview.h"

#include <string.h>

#include "rpc/client.h"
#include "rpc/future.h"
#include "rpc/pending.h"
#include "rpc/server.h"
#include "runtime/failure.h"
#include "runtime/inspect.h"

enum { MOST_TASKS = 2000 }; /* described one by one */

double overview_seconds(int64_t began, int64_t now) {
  return began < now ? (double)(now - began) * 1e-9 : 0;
}

/* ---- state ------------------------------------------------------------------ */

static int count_pending(const rpc *rpc) {
  uint32_t count = 0;
  for (const list *each = rpc->peers.next; each != &rpc->peers; each = each->next)
    count += list_entry(each, const peer, link)->pending_count;
  return (int)count;
}

void overview_begin(const rpc *rpc, writer *out) {
  static const char *const states[] = {"starting", "running", "serving", "draining", "ended"};
  const node *node = rpc->node;
  writer_map(out);
  writer_put_text(out, "node", node->name);
  writer_put_text(out, "state", states[atomic_load(&node->state)]);
  writer_put_boolean(out, "stopping", atomic_load(&node->stopping));
  writer_put_boolean(out, "paused", node->paused);
  writer_put_boolean(out, "healthy", !rpc->unhealthy);
  writer_put_number(out, "uptime", overview_seconds(rpc->born, clock_now()));
  writer_key(out, "memory");
  writer_map(out);
  writer_put_integer(out, "bytes", (int64_t)atomic_load(&node->memory_bytes));
  if (node->memory_limit) writer_put_integer(out, "limit", (int64_t)node->memory_limit);
  writer_close(out);
  writer_put_integer(out, "tasks", node->task_count);
  const inbox *inbox = &rpc->inbox;
  writer_put_integer(out, "running", rpc->running - inbox->count);
  writer_put_integer(out, "waiting", rpc->held_count + inbox->count);
  writer_put_integer(out, "waiting_bytes",
                     (int64_t)(rpc->held_bytes + inbox->bytes.length - inbox->at));
  writer_put_integer(out, "pending", count_pending(rpc));
}

/* ---- tasks ------------------------------------------------------------------ */

/* Whom a task waits for that waits for credit. */
static const peer *credit_of(const rpc *rpc, const task *task) {
  for (const list *each = rpc->peers.next; each != &rpc->peers; each = each->next) {
    const peer *peer = list_entry(each, const struct peer, link);
    for (const list *one = peer->waiters.next; one != &peer->waiters; one = one->next)
      if (list_entry(one, const struct task, link) == task) return peer;
  }
  return NULL;
}

static void put_call(const pending *call, writer *out) {
  writer_put_text(out, "node", call->peer->name);
  writer_put_text(out, "method", call->watch.meter ? call->watch.meter->name : NULL);
}

/* What a waiting task waits for. */
static void put_wait(const rpc *rpc, const task *task, int64_t now, writer *out) {
  const pending *call = client_awaited(task);
  const peer *full = NULL;
  writer_key(out, "waits_for");
  writer_map(out);
  if (call) {
    writer_put_text(out, "what", "answer");
    put_call(call, out);
  } else if (future_awaited(task, &call)) {
    writer_put_text(out, "what", "future");
    if (call) put_call(call, out);
  } else if (!task->waiting_for && (full = credit_of(rpc, task))) {
    writer_put_text(out, "what", "room");
    writer_put_text(out, "node", full->name);
  } else if (!task->waiting_for && timer_running(&task->timer)) {
    writer_put_text(out, "what", "time");
  } else {
    writer_put_text(out, "what", "event");
  }
  writer_put_number(out, "seconds", overview_seconds(task->waits_since, now));
  if (timer_running(&task->timer))
    writer_put_number(out, "left", overview_seconds(now, task->timer.due));
  writer_close(out);
}

static const char *state_of(const task *task) {
  static const char *const words[] = {"idle", "new", "ready", "running", "waiting"};
  return words[task->state];
}

static void put_task(const rpc *rpc, const task *task, int64_t now, writer *out) {
  const call *call = server_call_of(task);
  writer_map(out);
  writer_put_integer(out, "slot", task->slot);
  writer_put_text(out, "kind", task->kind->name);
  writer_put_text(out, "state", state_of(task));
  writer_put_number(out, "seconds", overview_seconds(task->began, now));
  if (call) {
    writer_put_text(out, "method", call_method(call));
    writer_put_text(out, "caller", call->peer->name);
    if (call->notify) writer_put_boolean(out, "notify", true);
  }
  if (task->deadline != CLOCK_NEVER)
    writer_put_number(out, "deadline", overview_seconds(now, task->deadline));
  if (task->cancelled != LP_OK) writer_put_text(out, "cancelled", lp_strerror(task->cancelled));
  if (task->state == TASK_WAITING) put_wait(rpc, task, now, out);
  writer_key(out, "stack");
  inspect_stack(rpc->node, task, out);
  writer_close(out);
}

/* Code of the node's that runs outside of any task: a pack function, a finaliser. */
static void put_main_state(const rpc *rpc, writer *out) {
  const node *node = rpc->node;
  if (node->current || node->entered == 0) return;
  writer_map(out);
  writer_put_text(out, "kind", "engine");
  writer_put_text(out, "state", "running");
  writer_key(out, "stack");
  inspect_stack(node, NULL, out);
  writer_close(out);
}

/* {tasks = array, omitted = how many more there are} */
static void put_tasks(const rpc *rpc, writer *out) {
  const node *node = rpc->node;
  int64_t now = clock_now();
  int described = 0, omitted = 0;
  writer_map(out);
  writer_key(out, "tasks");
  writer_array(out);
  put_main_state(rpc, out);
  for (int i = 0; i < node->task_slots; i++) {
    const task *task = node->tasks[i];
    if (!task || task->state == TASK_IDLE) continue;
    if (described++ < MOST_TASKS)
      put_task(rpc, task, now, out);
    else
      omitted++;
  }
  writer_close(out);
  writer_put_integer(out, "omitted", omitted);
  writer_close(out);
}

bool overview_write(node *node, const char *what, writer *out) {
  const rpc *rpc = node->upper;
  if (!rpc) return false;
  if (strcmp(what, "state") == 0) {
    overview_begin(rpc, out);
    writer_close(out);
  } else if (strcmp(what, "tasks") == 0) {
    put_tasks(rpc, out);
  } else if (strcmp(what, "calls") == 0) {
    overview_calls(rpc, out);
  } else if (strcmp(what, "totals") == 0) {
    overview_totals(rpc, out);
  } else if (strcmp(what, "stats") == 0) {
    overview_stats(rpc, out);
  } else {
    return false;
  }
  return true;
}

/* ---- for the node itself ---------------------------------------------------- */

static int read_overview(lua_State *L) {
  const buffer *bytes = lua_touserdata(L, 1);
  int count;
  fault fault;
  codec codec = rpc_of(L)->codec;
  if (codec_read(L, bytes->data, bytes->length, &codec, &count, &fault) != LP_OK)
    return failure_raise(L, fault.status, fault.text);
  return count;
}

/* overview(what) -> the answer to that question */
static int core_overview(lua_State *L) {
  writer out = {0};
  const char *what = luaL_checkstring(L, 1);
  writer_array(&out);
  bool known = overview_write(node_of(L), what, &out);
  writer_close(&out);
  lua_pushcfunction(L, read_overview);
  lua_pushlightuserdata(L, &out.out);
  int status = known && !out.failed ? lua_pcall(L, 1, 1, 0) : LUA_OK;
  buffer_fini(&out.out);
  if (!known) return luaL_error(L, "lp.core.overview: unknown question '%s'", what);
  if (out.failed) return failure_raise(L, LP_RESOURCE_EXHAUSTED, "out of memory");
  return status == LUA_OK ? 1 : lua_error(L);
}

const luaL_Reg overview_functions[] = {{"overview", core_overview}, {NULL, NULL}};
