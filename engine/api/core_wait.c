/* See core_wait.h. The Lua side builds what tasks wait for (events, queues, semaphores) on three of
 * them: token names a wait, park waits, wake ends it. */
#include "api/core_wait.h"

#include "base/clock.h"
#include "rpc/rpc.h"
#include "runtime/failure.h"
#include "runtime/seconds.h"

static int core_now(lua_State *L) {
  lua_pushnumber(L, (lua_Number)clock_now() * 1e-9);
  return 1;
}

static int wait_over(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  task_after_wait(L);
  return 0;
}

/* A deadline of the task's call cancels it by a timer of its own. */
static int core_sleep(lua_State *L) {
  luaL_checknumber(L, 1);
  int64_t due = seconds_due(L, 1);
  return task_yield(L, task_before_wait(L), due, 0, wait_over);
}

static int core_yield(lua_State *L) {
  task *task = task_before_wait(L);
  return task_yield(L, task, 0, 0, wait_over);
}

/* token() -> integer: names the wait that the next park of this task will be. */
static int core_token(lua_State *L) {
  task *task = task_current(L);
  task->wait++;
  task->woken = false;
  lua_pushinteger(L, (lua_Integer)task->slot << 32 | task->wait);
  return 1;
}

static char parked, interruption_key;

static int park_over(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  lua_pushboolean(L, task_after_wait(L));
  return 1;
}

static void park_abandon(task *task) {
  task->wait++; /* the token is void from now on */
}

/* park([seconds]) -> true: wake was called with the token; false: time is up */
static int core_park(lua_State *L) {
  int64_t due = seconds_due(L, 1);
  task *task = task_before_wait(L);
  if (task->woken) {
    task->woken = false;
    task->wait++; /* this wait is over: its token is void */
    lua_pushboolean(L, 1);
    return 1;
  }
  task->waiting_for = &parked;
  task->abandon = park_abandon;
  return task_yield(L, task, due, 0, park_over);
}

/* The task that the token at index 1 was given to. */
static task *task_of_token(lua_State *L) {
  node *node = node_of(L);
  lua_Integer slot = luaL_checkinteger(L, 1) >> 32;
  task *task = slot >= 0 && slot < node->task_slots ? node->tasks[slot] : NULL;
  return task && task->state != TASK_IDLE ? task : NULL;
}

/* interrupt(token, text) -> boolean: ends whatever wait the token's task is in now with an
 * error; false when it does not wait */
static int core_interrupt(lua_State *L) {
  task *task = task_of_token(L);
  const char *text = luaL_checkstring(L, 2);
  lua_settop(L, 2);
  bool waits = task && task->state == TASK_WAITING && task->shield == 0;
  /* The text has to stay until the task has raised it: one under way is not replaced. */
  if (waits) lua_rawsetp(L, LUA_REGISTRYINDEX, &interruption_key);
  lua_pushboolean(L, waits && task_interrupt(task, LP_ABORTED, text));
  return 1;
}

/* wake(token) -> boolean: false when that wait is over */
static int core_wake(lua_State *L) {
  task *task = task_of_token(L);
  bool live = task && task->wait == (uint32_t)lua_tointeger(L, 1) && !task->woken;
  if (live && task->state == TASK_WAITING && task->waiting_for == &parked) {
    task->wait++;
    task_wake(task, 0);
  } else if (live) {
    task->woken = true;
  }
  lua_pushboolean(L, live);
  return 1;
}

/* The first argument has to be one, or what can be called as one. */
static void check_function(lua_State *L, const char *what) {
  if (lua_isfunction(L, 1)) return;
  if (luaL_getmetafield(L, 1, "__call") == LUA_TNIL)
    luaL_error(L, "%s: expected a function, got %s", what, luaL_typename(L, 1));
  lua_pop(L, 1);
}

static int core_spawn(lua_State *L) {
  int top = lua_gettop(L);
  check_function(L, "lp.spawn");
  rpc_spawn_future(L, top - 1);
  return 1;
}

/* start(fn, ...): a task without a future; its error is a node failure. */
static int core_start(lua_State *L) {
  luaL_checkany(L, 1);
  rpc_spawn(L, lua_gettop(L) - 1);
  return 0;
}

static int shield_over(lua_State *L, int status, lua_KContext context) {
  (void)context;
  task_current(L)->shield--;
  if (status != LUA_OK && status != LUA_YIELD) return lua_error(L);
  return lua_gettop(L) - 1;
}

/* shield(fn, ...): what fn waits for is not cut short by a cancellation or deadline. */
static int core_shield(lua_State *L) {
  check_function(L, "lp.shield");
  task_current(L)->shield++;
  lua_pushcfunction(L, failure_handler);
  lua_insert(L, 1);
  int status = lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 1, 0, shield_over);
  return shield_over(L, status, 0);
}

const luaL_Reg core_wait_functions[] = {
    {"now", core_now},
    {"sleep", core_sleep},
    {"yield", core_yield},
    {"token", core_token},
    {"park", core_park},
    {"wake", core_wake},
    {"interrupt", core_interrupt},
    {"spawn", core_spawn},
    {"start", core_start},
    {"shield", core_shield},
    {NULL, NULL},
};
