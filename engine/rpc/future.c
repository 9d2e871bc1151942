/* Futures: the outcome of a call, of a spawned task, or one a script settles itself. */
#include <lauxlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "rpc/future.h"
#include "rpc/pending.h"
#include "runtime/failure.h"
#include "runtime/seconds.h"

typedef enum future_status { PENDING, DONE, FAILED, CANCELLED } future_status;

struct future {
  future_status status;
  int count;     /* results; more than one are in a table */
  bool read;     /* somebody asked for the outcome */
  bool of_task;  /* of a spawned task: an outcome nobody reads is a node failure */
  pending *call; /* what it waits for, so that cancel reaches it */
  task *task;
  const char *lost;      /* static text of a failure that came without Lua, */
  lp_status lost_status; /* and its code */
  uint64_t *waiters;     /* tokens of waiting tasks */
  int waiter_count, waiter_size;
};

enum { UV_VALUE = 1, UV_CALLBACKS = 2 };

static const char metatable_key = 0;

static future *future_at(lua_State *L, int index) {
  future *found = lua_touserdata(L, index);
  if (!found || !lua_getmetatable(L, index)) return NULL;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable_key);
  bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same ? found : NULL;
}

static future *future_check(lua_State *L) {
  future *found = future_at(L, 1);
  if (!found) luaL_typeerror(L, 1, "future");
  return found;
}

future *future_push(lua_State *L) {
  luaL_checkstack(L, 3, NULL);
  future *made = lua_newuserdatauv(L, sizeof *made, 2);
  memset(made, 0, sizeof *made);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable_key);
  lua_setmetatable(L, -2);
  return made;
}

void future_attach(future *future, pending *pending) {
  future->call = pending;
}

void future_attach_task(future *future, task *task) {
  future->task = task;
  future->of_task = true;
}

/* ---- waiters ---------------------------------------------------------------- */

static uint64_t token_of(const task *task) {
  return (uint64_t)(uint32_t)task->slot << 32 | task->wait;
}

/* The waiting task lets go when the wait ends otherwise. */
static void waiter_remove(task *task) {
  future *future = task->waiting_for;
  for (int i = 0; i < future->waiter_count; i++) {
    if (future->waiters[i] != token_of(task)) continue;
    future->waiters[i] = future->waiters[--future->waiter_count];
    return;
  }
}

bool future_awaited(const task *task, const pending **call) {
  if (task->abandon != waiter_remove) return false;
  *call = ((const future *)task->waiting_for)->call;
  return true;
}

static void waiter_add(lua_State *L, future *future, task *task) {
  if (future->waiter_count == future->waiter_size) {
    int size = future->waiter_size ? future->waiter_size * 2 : 2;
    uint64_t *waiters = mem_realloc(future->waiters, (size_t)size * sizeof *waiters);
    if (!waiters) {
      failure_raise(L, LP_RESOURCE_EXHAUSTED, "no memory to wait");
      return;
    }
    future->waiters = waiters;
    future->waiter_size = size;
  }
  task->wait++;
  future->waiters[future->waiter_count++] = token_of(task);
  task->waiting_for = future; /* alive: it is an argument of the call that waits */
  task->abandon = waiter_remove;
}

static void wake_waiters(node *node, future *future) {
  for (int i = 0; i < future->waiter_count; i++) {
    task *task = node->tasks[future->waiters[i] >> 32];
    if (task && token_of(task) == future->waiters[i] && task->waiting_for == future)
      task_wake(task, 0);
  }
  future->waiter_count = 0;
}

/* ---- settling --------------------------------------------------------------- */

/* Starts the callbacks of the future at `index`, each in a task of its own. */
static void run_callbacks(lua_State *L, int index) {
  if (lua_getiuservalue(L, index, UV_CALLBACKS) != LUA_TTABLE) {
    lua_pop(L, 1);
    return;
  }
  lua_Integer count = luaL_len(L, -1);
  for (lua_Integer i = 1; i <= count; i++) {
    lua_rawgeti(L, -1, i);
    lua_pushvalue(L, index);
    rpc_spawn(L, 1);
  }
  lua_pop(L, 1);
  lua_pushnil(L);
  lua_setiuservalue(L, index, UV_CALLBACKS);
}

/* Turns the `count` values on top into the one that is stored. */
static void pack_values(lua_State *L, int count) {
  if (count == 1) return;
  lua_createtable(L, count, 1);
  lua_insert(L, -count - 1);
  for (int i = count; i > 0; i--) lua_rawseti(L, -i - 1, i);
}

void future_settle(lua_State *L, int index, bool ok, int count) {
  luaL_checkstack(L, 6, NULL);
  index = lua_absindex(L, index);
  future *future = future_at(L, index);
  if (future->status != PENDING) {
    lua_pop(L, count);
    return;
  }
  pack_values(L, count);
  lua_setiuservalue(L, index, UV_VALUE);
  future->status = ok ? DONE : FAILED;
  future->count = count;
  future->call = NULL;
  future->task = NULL;
  wake_waiters(node_of(L), future);
  run_callbacks(L, index);
}

void future_abandon(node *node, future *future, lp_status status, const char *text) {
  if (future->status != PENDING) return;
  future->status = status == LP_CANCELLED ? CANCELLED : FAILED;
  future->lost = text;
  future->lost_status = status;
  future->call = NULL;
  future->task = NULL;
  wake_waiters(node, future);
}

/* ---- methods ---------------------------------------------------------------- */

static void push_error(lua_State *L, const future *future) {
  if (!future->lost) {
    lua_getiuservalue(L, 1, UV_VALUE);
    return;
  }
  failure_push(L, future->lost_status, future->lost);
}

static int push_result(lua_State *L, future *future) {
  future->read = true;
  if (future->status != DONE) {
    push_error(L, future);
    return lua_error(L);
  }
  lua_getiuservalue(L, 1, UV_VALUE);
  if (future->count == 1) return 1;
  luaL_checkstack(L, future->count + 1, "too many results");
  for (int i = 1; i <= future->count; i++) lua_rawgeti(L, -i, i);
  return future->count;
}

/* nil, or the error. */
static int push_exception(lua_State *L, future *future) {
  future->read = true;
  if (future->status == DONE) return 0;
  push_error(L, future);
  return 1;
}

enum { WANT_RESULT, WANT_EXCEPTION };

static int push_outcome(lua_State *L, future *future, lua_KContext want) {
  if (want == WANT_RESULT) return push_result(L, future);
  lua_settop(L, 1);
  if (push_exception(L, future) == 0) lua_pushnil(L);
  return 1;
}

static int waited(lua_State *L, int status, lua_KContext want) {
  (void)status;
  future *future = future_check(L);
  task_after_wait(L);
  if (future->status == PENDING)
    return failure_raise(L, LP_DEADLINE_EXCEEDED,
                         "deadline exceeded: the future has no result yet");
  return push_outcome(L, future, want);
}

/* Waits for the outcome, `timeout` seconds at most (0 looks only, nil for ever). */
static int wait_for(lua_State *L, lua_KContext want) {
  future *future = future_check(L);
  int64_t own = seconds_due(L, 2);
  future->read = true;
  if (future->status != PENDING) return push_outcome(L, future, want);
  task *task = task_before_wait(L);
  int64_t due = task->shield ? CLOCK_NEVER : task->deadline;
  if (own < due) due = own;
  lua_settop(L, 1);
  waiter_add(L, future, task);
  return task_yield(L, task, due, want, waited);
}

static int future_result(lua_State *L) {
  return wait_for(L, WANT_RESULT);
}

static int future_exception(lua_State *L) {
  return wait_for(L, WANT_EXCEPTION);
}

static int future_done(lua_State *L) {
  lua_pushboolean(L, future_check(L)->status != PENDING);
  return 1;
}

static int future_cancelled(lua_State *L) {
  lua_pushboolean(L, future_check(L)->status == CANCELLED);
  return 1;
}

static int future_cancel(lua_State *L) {
  future *future = future_check(L);
  future->read = true;
  bool pending_still = future->status == PENDING;
  if (pending_still) {
    struct pending *call = future->call;
    task *task = future->task;
    if (call) {
      int reference = call->future;
      pending_give_up(call);
      pending_free(call);
      luaL_unref(L, LUA_REGISTRYINDEX, reference);
    }
    lua_settop(L, 1);
    failure_push(L, LP_CANCELLED, "the future was cancelled");
    future_settle(L, 1, false, 1);
    future->status = CANCELLED;
    if (task) task_cancel(task, LP_CANCELLED, "the future was cancelled");
  }
  lua_pushboolean(L, pending_still);
  return 1;
}

static int future_add_done_callback(lua_State *L) {
  future *future = future_check(L);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  future->read = true;
  if (lua_getiuservalue(L, 1, UV_CALLBACKS) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, 1, UV_CALLBACKS);
  }
  lua_pushvalue(L, 2);
  lua_rawseti(L, 3, luaL_len(L, 3) + 1);
  if (future->status != PENDING) run_callbacks(L, 1);
  return 0;
}

bool future_unread_failure(lua_State *L, int index) {
  future *future = future_at(L, index);
  return future->status == FAILED && future->of_task && !future->read;
}

void future_excuse(lua_State *L, int index) {
  future_at(L, index)->read = true;
}

static int future_gc(lua_State *L) {
  future *future = lua_touserdata(L, 1);
  mem_free(future->waiters);
  future->waiters = NULL;
  future->waiter_count = future->waiter_size = 0; /* a finaliser may have kept it */
  if (future->status == FAILED && future->of_task && !future->read) {
    lua_getiuservalue(L, 1, UV_VALUE);
    node_fail(L);
  }
  return 0;
}

static int future_tostring(lua_State *L) {
  static const char *const words[] = {"pending", "done", "failed", "cancelled"};
  lua_pushfstring(L, "future (%s)", words[future_check(L)->status]);
  return 1;
}

/* ---- functions -------------------------------------------------------------- */

static int core_future(lua_State *L) {
  future_push(L);
  return 1;
}

/* resolve(future, true, ...) or resolve(future, false, error); false when it was settled. */
static int core_resolve(lua_State *L) {
  future *future = future_check(L);
  luaL_checkany(L, 2);
  bool fresh = future->status == PENDING;
  int count = lua_gettop(L) - 2;
  if (!lua_toboolean(L, 2) && count == 0) {
    lua_pushnil(L);
    count = 1;
  }
  future_settle(L, 1, lua_toboolean(L, 2), count);
  lua_pushboolean(L, fresh);
  return 1;
}

static int core_is_future(lua_State *L) {
  lua_pushboolean(L, future_at(L, 1) != NULL);
  return 1;
}

const luaL_Reg future_functions[] = {
    {"future", core_future},
    {"resolve", core_resolve},
    {"is_future", core_is_future},
    {NULL, NULL},
};

void future_open(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"result", future_result},
      {"exception", future_exception},
      {"done", future_done},
      {"cancel", future_cancel},
      {"cancelled", future_cancelled},
      {"add_done_callback", future_add_done_callback},
      {NULL, NULL},
  };
  lua_newtable(L);
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pushliteral(L, "lp.Future");
  lua_setfield(L, -2, "__name");
  lua_pushcfunction(L, future_gc);
  lua_setfield(L, -2, "__gc");
  lua_pushcfunction(L, future_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &metatable_key);
}
