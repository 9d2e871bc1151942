/* See core.h. */
#include "api/core.h"

#include <lauxlib.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/core_faults.h"
#include "api/core_print.h"
#include "api/core_wait.h"
#include "api/embedded.h"
#include "api/popen.h"
#include "base/clock.h"
#include "rpc/client.h"
#include "rpc/future.h"
#include "rpc/health.h"
#include "rpc/inbox.h"
#include "rpc/methods.h"
#include "rpc/overview.h"
#include "rpc/reply.h"
#include "rpc/server.h"
#include "runtime/engine.h"
#include "runtime/failure.h"
#include "runtime/interrupt.h"
#include "runtime/patterns.h"

static const char context_key = 0;

/* ---- the node --------------------------------------------------------------- */

static int core_stopping(lua_State *L) {
  lua_pushboolean(L, atomic_load_explicit(&node_of(L)->stopping, memory_order_relaxed));
  return 1;
}

/* The one table of the node; `deadline` is that of the task that asks. */
static int core_context(lua_State *L) {
  task *task = node_of(L)->current;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &context_key);
  if (task && task->deadline != CLOCK_NEVER) {
    lua_pushnumber(L, (lua_Number)task->deadline * 1e-9);
  } else {
    lua_pushnil(L);
  }
  lua_setfield(L, -2, "deadline");
  return 1;
}

/* Marks the registry reference `place` of a rpc with the value at `index`. */
static void keep(lua_State *L, int index, int *place) {
  luaL_unref(L, LUA_REGISTRYINDEX, *place);
  *place = LUA_NOREF;
  if (lua_isnoneornil(L, index)) return;
  lua_pushvalue(L, index);
  *place = luaL_ref(L, LUA_REGISTRYINDEX);
}

static void keep_served(lua_State *L, rpc *rpc) {
  keep(L, 1, &rpc->instance);
  keep(L, 2, &rpc->constructor);
  rpc->constructor_address = lua_topointer(L, 2);
  keep(L, 3, &rpc->expose);
}

/* serve(instance, constructor or nil, set of exposed names or nil, what was bound or nil): calls
 * are answered from now on. */
static int core_serve(lua_State *L) {
  rpc *rpc = rpc_of(L);
  lua_settop(L, 4);
  keep_served(L, rpc);
  keep(L, 4, &rpc->bound);
  atomic_store(&rpc->node->state, NODE_SERVING);
  server_open(L, rpc);
  return 0;
}

/* serve_nobody(): calls are refused from now on. */
static int core_serve_nobody(lua_State *L) {
  server_close(L, rpc_of(L));
  return 0;
}

/* keep_instance(instance, constructor): what the node has made, and of what, for those who inspect
 * or renew it, where it is not served. */
static int core_keep_instance(lua_State *L) {
  luaL_checkany(L, 1);
  lua_settop(L, 2);
  keep(L, 1, &rpc_of(L)->instance);
  keep(L, 2, &rpc_of(L)->constructor);
  return 0;
}

/* constructor() -> what the node was made of, or nil */
static int core_constructor(lua_State *L) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, rpc_of(L)->constructor);
  return 1;
}

/* file_stamp(path) -> a text that is another when the file has changed; nil: there is none */
static int core_file_stamp(lua_State *L) {
  struct stat status;
  if (stat(luaL_checkstring(L, 1), &status) != 0) return 0;
  lua_pushfstring(L, "%I.%I.%I.%I", (lua_Integer)status.st_mtim.tv_sec,
                  (lua_Integer)status.st_mtim.tv_nsec, (lua_Integer)status.st_size,
                  (lua_Integer)status.st_ino);
  return 1;
}

/* instance() -> what the node has made, nil: nothing, or not yet */
static int core_instance(lua_State *L) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, rpc_of(L)->instance);
  return 1;
}

/* native(name) -> is there a host node of this name? (The function itself is there only where
 * there can be some.) */
static int core_native(lua_State *L) {
  engine *engine = node_of(L)->engine;
  lua_pushboolean(L, engine->native(engine, luaL_checkstring(L, 1)) != NULL);
  return 1;
}

/* serve_native(name): calls are answered in C, by the host node of this name. */
static int core_serve_native(lua_State *L) {
  rpc *rpc = rpc_of(L);
  engine *engine = rpc->node->engine;
  const char *name = luaL_checkstring(L, 1);
  rpc->native = engine->native ? engine->native(engine, name) : NULL;
  if (!rpc->native)
    return failure_raisef(L, LP_NOT_FOUND, "the program implements no host node \"%s\"", name);
  atomic_store(&rpc->node->state, NODE_SERVING);
  server_open(L, rpc);
  return 0;
}

/* statement(number): by which whoever typed what the running task does may interrupt it; 0: no more
 */
static int core_statement(lua_State *L) {
  task_current(L)->statement = luaL_checkinteger(L, 1);
  return 0;
}

/* bounded(steps, bytes) -> find, match, gmatch, gsub and rep for scripts that are not trusted */
static int core_bounded(lua_State *L) {
  patterns_push(L, luaL_checkinteger(L, 1), luaL_checkinteger(L, 2));
  return 1;
}

/* instructions(n): the node ends when a task of it uses more without waiting; 0: no bound */
static int core_instructions(lua_State *L) {
  node_of(L)->instruction_limit = luaL_checkinteger(L, 1);
  interrupt_running(node_of(L)->loop, L); /* from here on */
  return 0;
}

/* unserve(): calls are refused from now on; handlers that run finish. */
static int core_unserve(lua_State *L) {
  rpc_of(L)->stopped = true;
  return 0;
}

/* rebound(): what is bound has changed, for calls that came already, too. */
static int core_rebound(lua_State *L) {
  inbox_rebound(rpc_of(L));
  return 0;
}

/* healthy(boolean): what callers are told of this node */
static int core_healthy(lua_State *L) {
  health_set(rpc_of(L), lua_toboolean(L, 1));
  return 0;
}

enum { SETTLE_BYTES = 1 << 20 };

/* settle(): the node has started; what that left behind is collected as soon as the node has
 * nothing to do. Beside what a large node has made of its own it would not be noticed. */
static int core_settle(lua_State *L) {
  rpc *rpc = rpc_of(L);
  int starting = NODE_STARTING; /* not if it is to stop already */
  atomic_compare_exchange_strong(&rpc->node->state, &starting, NODE_RUNNING);
  rpc->settling = atomic_load(&rpc->node->memory_bytes) < SETTLE_BYTES;
  return 0;
}

/* The count at `index`, nil: 0; one beyond an int is as good as the greatest. */
static int opt_count(lua_State *L, int index) {
  lua_Integer count = luaL_optinteger(L, index, 0);
  return count > INT_MAX ? INT_MAX : (int)count;
}

/* limits(handlers at once or nil, calls waiting or nil, set of priority methods or nil, bytes of
 * calls waiting or nil, bytes of answers waiting for a caller or nil) */
static int core_limits(lua_State *L) {
  rpc *rpc = rpc_of(L);
  rpc->max_running = opt_count(L, 1);
  rpc->max_held = opt_count(L, 2);
  rpc->max_held_bytes = (size_t)luaL_optinteger(L, 4, TERMS_PENDING_BYTES);
  rpc->max_answer_bytes = (size_t)luaL_optinteger(L, 5, TERMS_ANSWER_BYTES);
  lua_settop(L, 3);
  keep(L, 3, &rpc->priority);
  return 0;
}

/* methods([instance, constructor, exposed]) -> names that can be called; with arguments, those
 * of an instance that is not served yet. */
static int core_methods(lua_State *L) {
  rpc *rpc = rpc_of(L);
  if (lua_gettop(L) > 0) {
    lua_settop(L, 3);
    keep_served(L, rpc);
  }
  methods_list(L, rpc);
  return 1;
}

/* finish(): no new calls; the node ends when its handlers have. */
static int core_finish(lua_State *L) {
  node_drain(node_of(L));
  return 0;
}

/* fail(error): the node has failed. */
static int core_fail(lua_State *L) {
  luaL_checkany(L, 1);
  lua_settop(L, 1);
  node_fail(L);
  return 0;
}

/* exit(ok, text): ends the node at once, from wherever it is called. */
static int core_exit(lua_State *L) {
  node *node = node_of(L);
  node_set_end(node, lua_toboolean(L, 1) ? LP_OK : LP_ABORTED, luaL_checkstring(L, 2));
  node->killed = true;
  node_ready(node);
  if (!node_can_yield(node, L)) return luaL_error(L, "the node is ending");
  node->mark = MARK_KILL;
  return lua_yield(L, 0);
}

static int core_on_stop(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  keep(L, 1, &rpc_of(L)->on_stop);
  if (rpc_of(L)->stop_asked) rpc_spawn(L, 0);
  return 0;
}

static int core_connector(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  keep(L, 1, &rpc_of(L)->connector);
  return 0;
}

static int core_error_metatable(lua_State *L) {
  failure_push_metatable(L);
  return 1;
}

/* handler(value): the message handler that makes an lp.Error with a traceback. */
static int core_handler(lua_State *L) {
  return failure_handler(L);
}

/* ---- modules ---------------------------------------------------------------- */

/* A searcher of require: modules compiled into the program. */
static int embedded_searcher(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  const struct embedded_module *found = embedded_find(name);
  if (!found) {
    lua_pushfstring(L, "no embedded module '%s'", name);
    return 1;
  }
  if (luaL_loadbufferx(L, (const char *)found->code, found->size, name, "b") != LUA_OK)
    return lua_error(L);
  lua_pushstring(L, name);
  return 2;
}

/* Our modules come from the program itself, or during development from LP_LUA_PATH. */
static void open_modules(lua_State *L) {
  lua_getglobal(L, "package");
  const char *folder = getenv("LP_LUA_PATH");
  if (folder) {
    lua_getfield(L, -1, "path");
    lua_pushfstring(L, "%s/?.lua;%s/?/init.lua;%s", folder, folder, lua_tostring(L, -1));
    lua_setfield(L, -3, "path");
    lua_pop(L, 1);
  } else {
    lua_getfield(L, -1, "searchers");
    for (lua_Integer i = luaL_len(L, -1); i >= 2; i--) {
      lua_rawgeti(L, -1, i);
      lua_rawseti(L, -2, i + 1);
    }
    lua_pushcfunction(L, embedded_searcher);
    lua_rawseti(L, -2, 2);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static const luaL_Reg core_functions[] = {
    {"stopping", core_stopping},
    {"context", core_context},
    {"serve", core_serve},
    {"serve_nobody", core_serve_nobody},
    {"serve_native", core_serve_native},
    {"bounded", core_bounded},
    {"instructions", core_instructions},
    {"settle", core_settle},
    {"unserve", core_unserve},
    {"rebound", core_rebound},
    {"healthy", core_healthy},
    {"statement", core_statement},
    {"keep_instance", core_keep_instance},
    {"instance", core_instance},
    {"constructor", core_constructor},
    {"file_stamp", core_file_stamp},
    {"limits", core_limits},
    {"methods", core_methods},
    {"finish", core_finish},
    {"fail", core_fail},
    {"exit", core_exit},
    {"on_stop", core_on_stop},
    {"connector", core_connector},
    {"error_metatable", core_error_metatable},
    {"handler", core_handler},
    {"popen", core_popen},
    {NULL, NULL},
};

static const luaL_Reg *find_function(const luaL_Reg *list, const char *name) {
  for (; list->name; list++)
    if (list->name[0] == name[0] && strcmp(list->name, name) == 0) return list;
  return NULL;
}

/* The metamethod __index of lp.core: enters a function when it is asked for the first time. Most
 * nodes use a third of them, and all would take a tenth of a small node's memory. */
static int core_index(lua_State *L) {
  static const luaL_Reg *const lists[] = {
      core_functions,   core_wait_functions, core_print_functions, client_functions,
      future_functions, reply_functions,     overview_functions,   core_fault_functions};
  const luaL_Reg *found = NULL;
  const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : NULL;
  for (size_t i = 0; name && !found && i < sizeof lists / sizeof *lists; i++)
    found = find_function(lists[i], name);
  if (!found) return 0;
  lua_settop(L, 2);
  lua_pushcfunction(L, found->func);
  lua_pushvalue(L, -1);
  lua_insert(L, 2); /* table, function, name, function */
  lua_rawset(L, 1);
  return 1;
}

/* Pushes lp.core and enters it among the loaded modules. */
static void open_core(lua_State *L) {
  codec_open(L);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, core_index);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  if (node_of(L)->engine->native) {
    lua_pushcfunction(L, core_native);
    lua_setfield(L, -2, "native");
  }
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &context_key);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "lp.core");
  lua_pop(L, 1);
}

/* ---- a node's main task ----------------------------------------------------- */

static void main_done(lua_State *L, task *task, bool ok, int first) {
  (void)task;
  if (ok) return;
  lua_settop(L, first);
  node_fail(L);
}

static void main_lost(task *task, lp_status status, const char *text) {
  node *node = task->node;
  if (!node->closing) {
    node_set_end(node, status, text);
    node->killed = true;
    node_ready(node);
  }
}

static const task_kind main_kind = {.name = "main", .done = main_done, .lost = main_lost};

static int boot_over(lua_State *L, int status, lua_KContext context) {
  (void)L;
  (void)status;
  (void)context;
  return 0;
}

/* require(module)[field](argument), the whole of which may wait. */
static int run_boot(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  lua_pushvalue(L, 2);
  lua_gettable(L, -2);
  lua_pushvalue(L, 3);
  lua_callk(L, 1, 0, 0, boot_over);
  return 0;
}

static int start_node(lua_State *L) {
  const node_request *request = lua_touserdata(L, 1);
  luaL_checkstack(L, 20, NULL);
  open_modules(L);
  open_core(L);
  if (request->open) request->open(L);
  lua_settop(L, 1);
  lua_pushcfunction(L, run_boot);
  lua_pushstring(L, request->boot.module);
  lua_pushstring(L, request->boot.field);
  lua_pushlstring(L, request->boot.argument, request->boot.length);
  task *task = task_new(L, &main_kind, NULL);
  rpc_of(L)->maker = task;
  lua_xmove(L, task->co, 4);
  task_start(task, 3);
  return 0;
}

node *core_node(loop *loop, const node_request *request, fault *fault) {
  node *made =
      node_new(loop, request->name, request->key, &rpc_hooks, request->memory_limit, fault);
  if (!made) return NULL;
  made->timeslice = request->timeslice;
  terms terms = request->terms.calls ? request->terms : TERMS_DEFAULT;
  if (request->id) node_set_id(made, request->id);
  lp_status status = LP_OK;
  if (!request->id)
    status = engine_add(loop->engine, request->key, loop->box, made->id, terms, NULL);
  if (status != LP_OK) {
    fault_set(fault, status, "cannot enter node %s: %s", request->name, lp_strerror(status));
    node_abort(made);
    return NULL;
  }
  if (rpc_open(made, terms, fault) && node_enter(made, start_node, (void *)request, fault))
    return made;
  engine_end(loop->engine, request->key, fault->status, fault->text);
  node_abort(made);
  return NULL;
}
