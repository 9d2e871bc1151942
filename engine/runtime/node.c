/* See node.h. */
#include "runtime/node.h"

#include <lauxlib.h>
#include <lualib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "runtime/engine.h"
#include "runtime/failure.h"
#include "runtime/interrupt.h"
#include "runtime/lines.h"
#include "runtime/task.h"

static void *move_block(node *node, void *block, size_t old_bytes, size_t bytes) {
  const engine *engine = node->engine;
  if (!engine->allocate) return slabs_resize(&node->loop->slabs, block, old_bytes, bytes);
  void *moved = engine->allocate(engine->allocate_user, block, old_bytes, bytes);
  return moved || !bytes || bytes > old_bytes ? moved : block;
}

/* Lua's allocator. Growth beyond the limit is refused, shrinking never. */
static void *node_allocate(void *owner, void *block, size_t old_bytes, size_t bytes) {
  node *node = owner;
  size_t used = atomic_load_explicit(&node->memory_bytes, memory_order_relaxed);
  if (!block) old_bytes = 0;
  if (bytes == 0) {
    move_block(node, block, old_bytes, 0);
    atomic_store_explicit(&node->memory_bytes, used - old_bytes, memory_order_relaxed);
    return NULL;
  }
  if (bytes > old_bytes && node->memory_limit && used - old_bytes + bytes > node->memory_limit) {
    node->starved = true;
    return NULL;
  }
  void *moved = move_block(node, block, old_bytes, bytes);
  if (!moved) return NULL;
  atomic_store_explicit(&node->memory_bytes, used - old_bytes + bytes, memory_order_relaxed);
  return moved;
}

/* The first protected entry: libraries and the engine's own tables. */
static int open_state(lua_State *L) {
  luaL_openlibs(L);
  failure_open(L);
  return coroutine_open(L);
}

static void node_free(node *node) {
  if (!node) return;
  atomic_store(&node->state, NODE_ENDED);
  if (node->L) lua_close(node->L);
  if (node->hooks && node->hooks->on_free) node->hooks->on_free(node);
  for (int i = 0; i < node->task_slots; i++)
    if (node->tasks[i]) task_free(node->tasks[i]);
  lines_free(node->lines);
  list_remove(&node->link);
  hash_remove(&node->loop->by_id, &node->by_id);
  list_remove(&node->ready_link);
  mem_free(node->farewell);
  mem_free(node->tasks);
  mem_free(node->name);
  mem_free(node->key);
  mem_free(node->end_text);
  mem_free(node->end_trace);
  node->name = node->key = node->end_text = node->end_trace = NULL;
  node_unref(node);
}

node *node_ref(node *node) {
  atomic_fetch_add(&node->references, 1);
  return node;
}

void node_unref(node *node) {
  if (node && atomic_fetch_sub(&node->references, 1) == 1) mem_free(node);
}

static node *node_blank(loop *loop, const char *name, const char *key, const node_hooks *hooks) {
  node *made = mem_new(sizeof *made);
  if (!made) return NULL;
  list_init(&made->link);
  list_init(&made->ready_link);
  list_init(&made->ready);
  list_init(&made->idle);
  atomic_init(&made->references, 1);
  made->engine = loop->engine;
  made->loop = loop;
  made->hooks = hooks;
  made->name = mem_strdup(name);
  made->key = mem_strdup(key);
  made->id = atomic_fetch_add(&loop->engine->next_id, 1);
  made->lines = lines_new(made);
  made->farewell = engine_reserve(key);
  if (made->name && made->key && made->lines && made->farewell)
    made->L = lua_newstate(node_allocate, made);
  return made;
}

node *node_new(loop *loop, const char *name, const char *key, const node_hooks *hooks,
               size_t memory_limit, fault *fault) {
  node *made = node_blank(loop, name, key, hooks);
  if (!made || !made->L) {
    node_free(made);
    fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for node %s", name);
    return NULL;
  }
  *(struct node **)lua_getextraspace(made->L) = made;
  if (!node_enter(made, open_state, NULL, fault)) {
    node_free(made);
    return NULL;
  }
  made->memory_limit = memory_limit;
  list_push(&loop->nodes, &made->link);
  hash_put(&loop->by_id, &made->by_id, made->id);
  return made;
}

void node_set_id(node *node, uint64_t id) {
  hash_remove(&node->loop->by_id, &node->by_id);
  node->id = id;
  hash_put(&node->loop->by_id, &node->by_id, id);
}

/* The message of the lp.Error at 1. A call of its own, since making the key may raise. */
static int message_of(lua_State *L) {
  lua_pushliteral(L, "message");
  lua_rawget(L, 1);
  return 1;
}

/* The words of the error on top of the stack, which stay there. */
static const char *error_text(lua_State *L) {
  if (failure_is(L, -1)) {
    lua_pushcfunction(L, message_of);
    lua_pushvalue(L, -2);
    lua_pcall(L, 1, 1, 0);
  }
  return lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
}

bool node_enter(node *node, lua_CFunction fn, void *ud, fault *fault) {
  lua_State *L = node->L;
  lua_State *outer = node->loop->running;
  int top = lua_gettop(L);
  lua_pushcfunction(L, fn);
  lua_pushlightuserdata(L, ud);
  node->entered++;
  interrupt_running(node->loop, L);
  int status = lua_pcall(L, 1, 0, 0);
  interrupt_running(node->loop, outer);
  node->entered--;
  if (status == LUA_OK) return true;
  fault_set(fault, status == LUA_ERRMEM ? LP_RESOURCE_EXHAUSTED : LP_INTERNAL, "%s", error_text(L));
  lua_settop(L, top);
  return false;
}

void node_set_end(node *node, lp_status status, const char *text) {
  if (node->end_text) return; /* the first reason is the reason */
  node->end_status = status;
  node->end_text = mem_strdup(text);
}

void node_close(node *node, lp_status status, const char *text) {
  node_set_end(node, status, text);
  engine *engine = node->engine;
  const char *how = node->end_text ? node->end_text : "the node ended";
  node->closing = true;
  node->close_by = clock_now() + task_grace(node);
  for (int i = 0; i < node->task_slots; i++) {
    task *task = node->tasks[i];
    if (task && task->state != TASK_IDLE) task_close(task, LP_UNAVAILABLE, how);
  }
  atomic_store(&node->state, NODE_ENDED);
  engine_end(engine, node->key, LP_UNAVAILABLE, how);
  if (node->hooks->on_close) node->hooks->on_close(node);
  atomic_fetch_sub(&node->loop->node_count, 1);
  /* Finalisers may print, so the end is told when they have run. */
  lua_close(node->L);
  node->L = NULL;
  lines_flush(node);
  const char *told = node->end_trace ? node->end_trace : how;
  engine_post_end(engine, node->farewell, node->id, node->end_status, told);
  node->farewell = NULL;
  node_free(node);
}

void node_abort(node *node) {
  node_free(node);
}

void node_ready(node *node) {
  if (list_empty(&node->ready_link)) list_push(&node->loop->ready, &node->ready_link);
}

void node_attend(node *node) {
  node->attend = true;
  node_ready(node);
}

void node_pause(node *node, bool paused) {
  node->paused = paused;
  if (!paused) node_ready(node);
}

void node_stop(node *node) {
  node->paused = false;
  if (atomic_exchange(&node->stopping, true)) return;
  node->stop_pending = true;
  node_ready(node);
}

void node_drain(node *node) {
  if (atomic_load(&node->state) >= NODE_DRAINING) return;
  atomic_store(&node->state, NODE_DRAINING);
  node_ready(node);
}

static int count_calls(const node *node) {
  int calls = 0;
  for (int i = 0; i < node->task_slots; i++) {
    task *task = node->tasks[i];
    calls += task && task->state != TASK_IDLE && task->kind->is_call;
  }
  return calls;
}

void node_cancel(node *node, const char *text) {
  for (int i = 0; i < node->task_slots; i++) {
    task *task = node->tasks[i];
    if (task && task->state != TASK_IDLE && task->cancelled == LP_OK)
      task_cancel(task, LP_CANCELLED, text);
  }
}

void node_interrupt(node *node, int64_t statement) {
  task *computes = node->current ? node->current : node->sliced;
  if (computes && (!statement || computes->statement == statement)) {
    node->interrupted = computes;
    node->interrupted_at = 0;
  }
  for (int i = 0; statement && i < node->task_slots; i++) {
    task *task = node->tasks[i];
    if (task && task->state != TASK_IDLE && task->statement == statement)
      task_cancel(task, LP_CANCELLED, "interrupted");
  }
}

/* With its handlers gone, what else runs in a draining node is told to end. */
static void drain_step(node *node) {
  if (node->task_count > 0 && count_calls(node) == 0) node_cancel(node, "the node has ended");
}

/* After its tasks had their turn: is the node at its end? True when it is gone. */
static bool node_finish(node *node) {
  if (node->entered > 0) return false;
  if (node->killed) {
    node_close(node, LP_CANCELLED, "the node was killed");
    return true;
  }
  if (atomic_load(&node->state) != NODE_DRAINING) return false;
  drain_step(node);
  if (node->task_count > 0) return false;
  node_close(node, LP_OK, "it has finished");
  return true;
}

int node_run(node *node, int budget) {
  int done = 0;
  if (node->paused && !node->killed) return 0;
  if (node->attend && !node->killed) {
    node->attend = false;
    if (node->hooks->on_attend) node->hooks->on_attend(node);
  }
  if (node->stop_pending && !node->killed && node->L) {
    node->stop_pending = false;
    if (node->hooks->on_stop) node->hooks->on_stop(node);
  }
  while (done < budget && !node->killed && !node->paused && !list_empty(&node->ready)) {
    task *next = node->sliced ? node->sliced : list_entry(node->ready.next, task, link);
    if (node->timeslice && !node->sliced) node->slice_began = clock_now();
    node->sliced = NULL;
    task_resume(next);
    loop_resumed(node->loop);
    done++;
    if (node->mark == MARK_SLICE) { /* timers, links and the loop's other nodes come first */
      done += LOOP_TURN_RESUMES;
      break;
    }
  }
  if (list_empty(&node->ready) && !node->killed && node->hooks->on_idle) node->hooks->on_idle(node);
  if (node_finish(node)) return done;
  if (!list_empty(&node->ready) && !node->paused) node_ready(node);
  return done;
}

bool node_can_yield(const node *node, lua_State *L) {
  return node->current && node->current->can_yield && lua_isyieldable(L);
}
