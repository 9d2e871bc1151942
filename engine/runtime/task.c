/* See task.h. A task's stack between runs holds, from the bottom: the base and its message
 * handler, the function and its arguments (before the first resume), or whatever its frames
 * hold (waiting). */
#include "runtime/task.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hot.h"
#include "base/memory.h"
#include "runtime/failure.h"
#include "runtime/interrupt.h"

enum { TASK_KEEP_IDLE = 256, CLOSE_STEP = 10000 };

static int task_base(lua_State *L);

static void task_timer(timer *fired) {
  task *late = list_entry(fired, task, timer);
  late->timed_out = true;
  if (late->abandon) late->abandon(late);
  task_wake(late, 0);
}

/* A cancelled task had its time to clean up, shielded or not. */
static void grace_timer(timer *fired) {
  task *late = list_entry(fired, task, grace);
  late->overdue = true;
  if (late->state == TASK_WAITING)
    task_close(late, late->cancelled, late->raise_text ? late->raise_text : "it was cancelled");
}

/* ---- making and keeping ----------------------------------------------------- */

/* A free slot of node->tasks, or -1. */
static int slot_find(node *node) {
  for (int i = 0; i < node->task_slots; i++)
    if (!node->tasks[i]) return i;
  int slots = node->task_slots ? node->task_slots * 2 : 8;
  task **tasks = mem_realloc(node->tasks, (size_t)slots * sizeof *tasks);
  if (!tasks) return -1;
  memset(tasks + node->task_slots, 0, (size_t)(slots - node->task_slots) * sizeof *tasks);
  int found = node->task_slots;
  node->tasks = tasks;
  node->task_slots = slots;
  return found;
}

static task *task_create(lua_State *L, node *node) {
  luaL_checkstack(L, 4, NULL);
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, -1);
  int anchor = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_pop(L, 1);
  int slot = slot_find(node);
  task *made = slot >= 0 ? mem_new(sizeof *made) : NULL;
  if (!made) {
    luaL_unref(L, LUA_REGISTRYINDEX, anchor);
    failure_raise(L, LP_RESOURCE_EXHAUSTED, "no memory for a task");
    return NULL;
  }
  made->node = node;
  made->wait = node->first_wait;
  made->co = co;
  made->anchor = anchor;
  made->slot = slot;
  list_init(&made->link);
  timer_init(&made->timer, task_timer);
  timer_init(&made->grace, grace_timer);
  node->tasks[slot] = made;
  return made;
}

task *task_new(lua_State *L, const task_kind *kind, void *context) {
  node *node = node_of(L);
  list *idle = list_pop(&node->idle);
  if (idle) node->idle_count--;
  task *made = idle ? list_entry(idle, task, link) : task_create(L, node);
  made->state = TASK_NEW;
  made->kind = kind;
  made->context = context;
  made->label = NULL;
  made->wait++;
  made->inner_count = made->shield = made->nargs = 0;
  made->cancelled = made->raise = LP_OK;
  made->failed = false;
  made->raise_text = NULL;
  made->started = made->overdue = false;
  made->statement = 0;
  made->abandon = NULL;
  made->waiting_for = NULL;
  made->deadline = CLOCK_NEVER;
  made->began = node->loop->now;
  made->waiter = made->co;
  node->task_count++;
  coroutine_tag(made->co, true);
  lua_pushcfunction(made->co, task_base);
  lua_pushcfunction(made->co, failure_handler);
  return made;
}

void task_free(task *task) {
  node *node = task->node;
  list_remove(&task->link);
  timer_stop(&node->loop->timers, &task->timer);
  timer_stop(&node->loop->timers, &task->grace);
  node->tasks[task->slot] = NULL;
  /* Tokens of this slot that are still about must not name a wait of its next task. */
  if (task->wait >= node->first_wait) node->first_wait = task->wait + 1;
  mem_free(task->inner);
  mem_free(task);
}

/* Ends its life as this task: back to the pool, or gone when its coroutine is unusable. */
static void task_retire(task *task, bool usable) {
  node *node = task->node;
  node->task_count--;
  if (node->sliced == task) node->sliced = NULL;
  timer_stop(&node->loop->timers, &task->timer);
  timer_stop(&node->loop->timers, &task->grace);
  list_remove(&task->link);
  coroutine_tag(task->co, false);
  task->state = TASK_IDLE;
  if (usable && node->idle_count < TASK_KEEP_IDLE && !node->closing) {
    list_push_front(&node->idle, &task->link); /* the next one finds it in the cache */
    node->idle_count++;
  } else {
    luaL_unref(node->L, LUA_REGISTRYINDEX, task->anchor); /* never allocates */
    task_free(task);
  }
  if (node->task_count == 0 && atomic_load(&node->state) == NODE_DRAINING) node_ready(node);
}

void task_discard(task *task) {
  lua_settop(task->co, 0);
  task_retire(task, lua_status(task->co) == LUA_OK);
}

void task_start(task *task, int nargs) {
  task->nargs = nargs + 2; /* of the base */
  task->state = TASK_READY;
  list_push(&task->node->ready, &task->link);
  node_ready(task->node);
}

/* ---- running ---------------------------------------------------------------- */

/* Lua's own words for it tell neither that nor why. */
static void explain_memory(lua_State *L) {
  char text[128] = "not enough memory";
  size_t limit = node_of(L)->memory_limit;
  if (limit) snprintf(text, sizeof text, "not enough memory: the node's limit is %zu bytes", limit);
  lua_settop(L, 1);
  failure_push(L, LP_RESOURCE_EXHAUSTED, text);
}

static int task_base_end(lua_State *L, int status, lua_KContext context) {
  (void)context;
  if (status == LUA_ERRMEM) explain_memory(L);
  task *task = node_of(L)->current;
  task->kind->done(L, task, status == LUA_OK || status == LUA_YIELD, 2);
  lua_settop(L, 0);
  return 0;
}

static int task_base(lua_State *L) {
  int status = lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 1, 0, task_base_end);
  return task_base_end(L, status, 0);
}

/* What the coroutine said when `done` itself failed. */
static const char *task_last_words(task *task) {
  bool is_text = lua_type(task->co, -1) == LUA_TSTRING; /* converting might raise */
  return is_text ? lua_tostring(task->co, -1) : "the result could not be delivered";
}

/* The others of its node go first only when the node's own time slice is over. */
static void slice_over(node *node, task *task) {
  task->nargs = 0;
  task->state = TASK_READY;
  node->sliced_last = task;
  if (node->timeslice && clock_now() - node->slice_began >= node->timeslice) {
    list_push(&node->ready, &task->link);
  } else {
    node->sliced = task;
    list_push_front(&node->ready, &task->link);
  }
  node_ready(node);
}

/* What a resume came back with. False: the task is no more. */
static bool task_settle(task *task, int status) {
  node *node = task->node;
  coroutine_tag(task->co, true);
  if (status == LUA_OK) {
    task_retire(task, true);
    return false;
  }
  if (status != LUA_YIELD) {
    task->kind->lost(task, LP_RESOURCE_EXHAUSTED, task_last_words(task));
    task_retire(task, false);
    return false;
  }
  switch (node->mark) {
    case MARK_KILL: /* for node_close */
    case MARK_WAIT: task->state = TASK_WAITING; return true;
    case MARK_SLICE: slice_over(node, task); return true;
    case MARK_CLOSE:
      task_close(task, task->cancelled, task->raise_text ? task->raise_text : "it was cancelled");
      return false;
    default:
      task_close(task, LP_FAILED_PRECONDITION, "a C function yielded outside of any coroutine");
      return false;
  }
}

/* It waited for its first turn until nobody needs it any more. */
static bool came_too_late(const task *task) {
  return !task->started && task->deadline != CLOCK_NEVER && clock_passed(task->deadline);
}

void task_resume(task *task) {
  node *node = task->node;
  list_remove(&task->link);
  if (came_too_late(task)) {
    task_close(task, LP_DEADLINE_EXCEEDED, "deadline exceeded before the call began");
    return;
  }
  if (node->sliced_last != task) node->instructions = 0;
  node->sliced_last = NULL;
  node->current = task;
  node->mark = MARK_NONE;
  task->state = TASK_RUNNING;
  task->started = true;
  task->depth = 0;
  task->can_yield = true;
  coroutine_tag(task->co, false);
  node->entered++;
  interrupt_running(node->loop, task->co);
  int results;
  int status = lua_resume(task->co, node->L, task->inner_count ? 0 : task->nargs, &results);
  interrupt_running(node->loop, NULL);
  node->entered--;
  node->current = NULL;
  if (node->interrupted && node->mark != MARK_SLICE) node->interrupted = NULL; /* it gave way */
  loop_count(node->loop);
  const task_kind *kind = task->kind;
  bool alive = task_settle(task, status);
  if (kind->after) kind->after(node, alive ? task : NULL);
}

/* ---- waiting ---------------------------------------------------------------- */

task *task_current(lua_State *L) {
  node *node = node_of(L);
  if (!node->current) luaL_error(L, "this needs a task; none is running here");
  return node->current;
}

/* The innermost C function from `level` of L on that Lua cannot yield across, or NULL. */
static const char *blocking_function(lua_State *L, int level) {
  lua_Debug frame;
  for (; lua_getstack(L, level, &frame); level++) {
    lua_getinfo(L, "Sn", &frame);
    const char *name = frame.name ? frame.name : "a C function or metamethod";
    if (frame.what[0] == 'C' && strcmp(name, "pcall") != 0 && strcmp(name, "xpcall") != 0)
      return name;
  }
  return NULL;
}

/* The same through all coroutines of the task, innermost first. Level 0 of each is what
 * waits or resumes the next; unless L is none of them, being closed by the innermost. */
static const char *blocking_place(lua_State *L, task *task) {
  const char *place = blocking_function(L, 1);
  for (int depth = task->depth; !place && depth >= 0; depth--) {
    lua_State *outer = depth > 0 ? task->inner[depth - 1] : task->co;
    bool closes = depth == task->depth && outer != L;
    if (outer != L) place = blocking_function(outer, closes ? 0 : 1);
  }
  return place ? place : "a C function";
}

static int raise_cannot_wait(lua_State *L, task *task) {
  if (task->node->closing)
    return failure_raise(L, LP_CANCELLED, "cannot wait: the task is being closed");
  return failure_raisef(L, LP_FAILED_PRECONDITION,
                        "cannot wait inside '%s', which Lua cannot suspend; make the call before "
                        "it, or from a task started with lp.spawn",
                        blocking_place(L, task));
}

/* Looks at the clock itself: code that swallows its cancellation again and again may keep
 * the timer from being looked at. */
static bool is_overdue(task *task) {
  if (task->cancelled != LP_OK && clock_now() >= task->grace.due) task->overdue = true;
  return task->overdue;
}

HOT_SHARED task *task_before_wait(lua_State *L) {
  task *task = task_current(L);
  if (!node_can_yield(task->node, L) || task->node->closing) raise_cannot_wait(L, task);
  if (is_overdue(task)) {
    task->node->mark = MARK_CLOSE;
    lua_yield(L, 0); /* does not return: the task is never resumed */
  }
  if (task->cancelled != LP_OK && task->shield == 0)
    failure_raise(L, task->cancelled,
                  task->raise_text ? task->raise_text : "the task was cancelled");
  return task;
}

HOT_SHARED int task_yield(lua_State *L, task *task, int64_t due, lua_KContext context,
                          lua_KFunction k) {
  task->waiter = L;
  task->nargs = 0;
  task->timed_out = false;
  task->waits_since = task->node->loop->now;
  task->node->mark = MARK_WAIT;
  if (due != CLOCK_NEVER) timer_start(&task->node->loop->timers, &task->timer, due);
  return lua_yieldk(L, 0, context, k);
}

bool task_after_wait(lua_State *L) {
  task *task = node_of(L)->current;
  lp_status status = task->raise;
  task->raise = LP_OK;
  if (status != LP_OK)
    failure_raise(L, status, task->raise_text ? task->raise_text : "the task was cancelled");
  return !task->timed_out;
}

HOT_SHARED void task_wake(task *task, int nargs) {
  if (task->state != TASK_WAITING) return;
  timer_stop(&task->node->loop->timers, &task->timer);
  task->abandon = NULL;
  task->waiting_for = NULL;
  task->nargs = nargs;
  task->state = TASK_READY;
  list_remove(&task->link); /* of a list of waiters */
  list_push(&task->node->ready, &task->link);
  node_ready(task->node);
}

bool task_interrupt(task *task, lp_status status, const char *text) {
  if (task->state != TASK_WAITING || task->shield > 0) return false;
  task->raise = status;
  task->raise_text = text;
  if (task->abandon) task->abandon(task);
  task_wake(task, 0);
  return true;
}

void task_fail(task *task, lp_status status, const char *text) {
  if (task->state != TASK_WAITING) return;
  task->raise = status;
  task->raise_text = text;
  task_wake(task, 0);
}

void task_cancel(task *task, lp_status status, const char *text) {
  if (task->cancelled == LP_OK) {
    task->cancelled = status;
    task->raise_text = text;
    timer_start(&task->node->loop->timers, &task->grace, clock_now() + TASK_GRACE_NS);
  }
  task_interrupt(task, status, task->raise_text);
}

/* ---- closing ---------------------------------------------------------------- */

/* Close handlers get until node->close_by; then every further step raises. */
static void close_hook(lua_State *L, lua_Debug *activation) {
  (void)activation;
  if (!node_of(L)->closing) lua_sethook(L, NULL, 0, 0); /* a coroutine that outlived it */
  if (!node_of(L)->closing || clock_now() < node_of(L)->close_by) return;
  lua_sethook(L, close_hook, LUA_MASKCOUNT | LUA_MASKLINE, 1);
  luaL_error(L, "a close handler took too long and was stopped");
}

void task_watch_closing(lua_State *co) {
  lua_sethook(co, close_hook, LUA_MASKCOUNT, CLOSE_STEP);
}

static void coroutine_close_now(task *task, lua_State *co) {
  node *node = task->node;
  coroutine_tag(co, false);
  task_watch_closing(co);
  interrupt_running(node->loop, NULL); /* a kill must not replace the hook */
  lua_resetthread(co);
  lua_sethook(co, NULL, 0, 0);
  lua_settop(co, 0);
}

void task_close(task *task, lp_status status, const char *text) {
  node *node = task->node;
  bool was_closing = node->closing;
  if (task->abandon) task->abandon(task);
  task->abandon = NULL;
  node->closing = true;
  if (!was_closing) node->close_by = clock_now() + task_grace(node);
  node->current = task;
  node->entered++;
  while (task->inner_count > 0) coroutine_close_now(task, task->inner[--task->inner_count]);
  coroutine_close_now(task, task->co);
  node->entered--;
  node->current = NULL;
  node->closing = was_closing;
  if (task->kind->lost) task->kind->lost(task, status, text);
  task_retire(task, false);
}

#ifdef __SANITIZE_THREAD__
#include <setjmp.h>

/* Debian's Lua jumps by a name that ThreadSanitizer does not know. Its own stack would then never
 * be cleared of what was jumped over, and overflow after some ten thousand waits. */
__attribute__((noreturn)) void __longjmp_chk(jmp_buf place, int value);
void __longjmp_chk(jmp_buf place, int value) {
  longjmp(place, value);
}
#endif
