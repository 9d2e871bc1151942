/* coroutine.* of a node. The same functions as stock Lua's, except that a wait or a time
 * slice inside a user's coroutine passes outward to the engine instead of looking like a
 * yield of the user's. That it does is told by node->mark; on the way back each level is
 * resumed by the one outside of it, and the innermost gets the values. */
#include <lauxlib.h>

#include "base/memory.h"
#include "runtime/failure.h"
#include "runtime/interrupt.h"
#include "runtime/task.h"

enum { MODE_RESUME, MODE_WRAP };

static int deliver(lua_State *L, lua_State *co, int status, int results, int mode);

/* Enters `co`, which is at level task->depth of the list of inner states. */
static int step(lua_State *L, task *task, lua_State *co, int nargs, int mode, lua_KFunction again) {
  node *node = task->node;
  bool outer = task->can_yield;
  int level = task->depth++;
  task->can_yield = outer && lua_isyieldable(L);
  if (node->closing)
    task_watch_closing(co); /* and no kill may replace that hook */
  else
    interrupt_running(node->loop, co);
  int results = 0;
  int status = lua_resume(co, L, nargs, &results);
  if (!node->closing) interrupt_running(node->loop, L);
  task->can_yield = outer;
  if (status == LUA_YIELD && node->mark != MARK_NONE) {
    coroutine_tag(co, true);
    return lua_yieldk(L, 0, mode, again);
  }
  task->depth = task->inner_count = level;
  return deliver(L, co, status, results, mode);
}

static lua_State *the_coroutine(lua_State *L, int mode) {
  return lua_tothread(L, mode == MODE_WRAP ? lua_upvalueindex(1) : 1);
}

/* Continues after an engine's wait. */
static int step_again(lua_State *L, int status, lua_KContext mode) {
  (void)status;
  task *task = node_of(L)->current;
  lua_State *co = the_coroutine(L, (int)mode);
  coroutine_tag(co, false);
  int nargs = task->depth == task->inner_count - 1 ? task->nargs : 0;
  return step(L, task, co, nargs, (int)mode, step_again);
}

static bool inner_push(task *task, lua_State *co) {
  if (task->inner_count == task->inner_size) {
    int size = task->inner_size ? task->inner_size * 2 : 4;
    lua_State **inner = mem_realloc(task->inner, (size_t)size * sizeof *inner);
    if (!inner) return false;
    task->inner = inner;
    task->inner_size = size;
  }
  task->inner[task->inner_count++] = co;
  return true;
}

static int refuse(lua_State *L, int mode, const char *text) {
  lua_pushstring(L, text);
  if (mode == MODE_WRAP) return lua_error(L);
  lua_pushboolean(L, 0);
  lua_insert(L, -2);
  return 2;
}

/* Begins a resume with the arguments from index `first` of L. */
static int start(lua_State *L, lua_State *co, int first, int mode) {
  task *task = task_current(L);
  int nargs = lua_gettop(L) - first + 1;
  if (co == L) return refuse(L, mode, "cannot resume non-suspended coroutine");
  if (coroutine_waits(co))
    return refuse(L, mode, "cannot resume a coroutine that waits in the engine");
  lua_Debug frame;
  if (lua_status(co) == LUA_OK && lua_getstack(co, 0, &frame))
    return refuse(L, mode, "cannot resume non-suspended coroutine");
  if (lua_status(co) == LUA_OK && lua_gettop(co) == 0)
    return refuse(L, mode, "cannot resume dead coroutine");
  if (!lua_checkstack(co, nargs)) return refuse(L, mode, "too many arguments to resume");
  if (!inner_push(task, co)) return refuse(L, mode, "not enough memory");
  lua_xmove(L, co, nargs);
  return step(L, task, co, nargs, mode, step_again);
}

/* lua_resetthread, which runs close handlers in `co`: that is where an interrupt has to look. */
static int reset(lua_State *L, lua_State *co) {
  node *node = node_of(L);
  if (node->closing) return lua_resetthread(co);
  interrupt_running(node->loop, co);
  int status = lua_resetthread(co);
  interrupt_running(node->loop, L);
  return status;
}

/* The coroutine of a wrap failed: its error is raised here, with its traceback kept. */
static int wrap_failed(lua_State *L, lua_State *co) {
  int status = lua_status(co);
  bool dead = status != LUA_OK && status != LUA_YIELD;
  lua_xmove(co, L, 1);
  if (dead) {
    failure_keep_trace(L, co);
    if (reset(L, co) != LUA_OK) {
      lua_pop(L, 1);
      lua_xmove(co, L, 1);
    }
  }
  return lua_error(L);
}

static int deliver(lua_State *L, lua_State *co, int status, int results, int mode) {
  if (status != LUA_OK && status != LUA_YIELD) {
    if (mode == MODE_WRAP) return wrap_failed(L, co);
    lua_pushboolean(L, 0);
    lua_xmove(co, L, 1);
    return 2;
  }
  if (!lua_checkstack(L, results + 1)) {
    lua_pop(co, results);
    return refuse(L, mode, "too many results to resume");
  }
  if (mode == MODE_RESUME) lua_pushboolean(L, 1);
  lua_xmove(co, L, results);
  return results + (mode == MODE_RESUME);
}

static lua_State *check_coroutine(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  luaL_argexpected(L, co, 1, "coroutine");
  return co;
}

static int coroutine_resume(lua_State *L) {
  return start(L, check_coroutine(L), 2, MODE_RESUME);
}

static int wrap_call(lua_State *L) {
  return start(L, the_coroutine(L, MODE_WRAP), 1, MODE_WRAP);
}

static int coroutine_create(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  return 1;
}

static int coroutine_wrap(lua_State *L) {
  coroutine_create(L);
  lua_pushcclosure(L, wrap_call, 1);
  return 1;
}

static bool in_coroutine(lua_State *L) {
  task *task = node_of(L)->current;
  return task && L != task->co;
}

static int coroutine_yield(lua_State *L) {
  if (!in_coroutine(L)) return luaL_error(L, "attempt to yield from outside a coroutine");
  node_of(L)->mark = MARK_NONE;
  return lua_yield(L, lua_gettop(L));
}

static const char *status_name(lua_State *L, lua_State *co) {
  if (L == co) return "running";
  if (coroutine_waits(co)) return "normal";
  lua_Debug frame;
  switch (lua_status(co)) {
    case LUA_YIELD: return "suspended";
    case LUA_OK:
      if (lua_getstack(co, 0, &frame)) return "normal";
      return lua_gettop(co) == 0 ? "dead" : "suspended";
    default: return "dead";
  }
}

static int coroutine_status(lua_State *L) {
  lua_pushstring(L, status_name(L, check_coroutine(L)));
  return 1;
}

static int coroutine_isyieldable(lua_State *L) {
  lua_State *co = lua_isthread(L, 1) ? lua_tothread(L, 1) : L;
  lua_pushboolean(L, in_coroutine(co) && lua_isyieldable(co));
  return 1;
}

static int coroutine_running(lua_State *L) {
  lua_pushthread(L);
  lua_pushboolean(L, !in_coroutine(L));
  return 2;
}

static int coroutine_close(lua_State *L) {
  lua_State *co = check_coroutine(L);
  const char *status = status_name(L, co);
  if (*status != 's' && *status != 'd') return luaL_error(L, "cannot close a %s coroutine", status);
  if (reset(L, co) == LUA_OK) {
    lua_pushboolean(L, 1);
    return 1;
  }
  lua_pushboolean(L, 0);
  lua_xmove(co, L, 1);
  return 2;
}

int coroutine_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"create", coroutine_create},
      {"resume", coroutine_resume},
      {"running", coroutine_running},
      {"status", coroutine_status},
      {"wrap", coroutine_wrap},
      {"yield", coroutine_yield},
      {"close", coroutine_close},
      {"isyieldable", coroutine_isyieldable},
      {NULL, NULL},
  };
  lua_getglobal(L, "coroutine");
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
  return 0;
}
