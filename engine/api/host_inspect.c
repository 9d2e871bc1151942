/* What the policy can ask about nodes of this process; see runtime/inspect.h. */
#include "api/host_parts.h"
#include "runtime/inspect.h"
#include "runtime/interrupt.h"

/* Pushes an array of the ids of the nodes that live there. */
static void push_ids(lua_State *L, const host *host, const hosted_loop *at) {
  lua_Integer count = 0;
  lua_createtable(L, at->nodes, 0);
  for (const list *each = host->nodes.next; each != &host->nodes; each = each->next) {
    const hosted_node *one = list_entry(each, const hosted_node, link);
    if (one->at != at) continue;
    lua_pushinteger(L, (lua_Integer)one->id);
    lua_rawseti(L, -2, ++count);
  }
}

/* inspect_loop(id, what, ticket) -> array of ids, or nil: as inspect, of all nodes that live on the
 * loop of node `id`. The answer is an array with {id, answer} for each of them that is born. */
static int host_inspect_loop(lua_State *L) {
  hosted_node *hosted = host_find_node(host_of(L), (uint64_t)luaL_checkinteger(L, 1));
  const char *what = luaL_checkstring(L, 2);
  uint64_t ticket = (uint64_t)luaL_checkinteger(L, 3);
  if (!hosted) return 0;
  push_ids(L, host_of(L), hosted->at);
  if (inspect_ask_all(hosted->at->loop, what, ticket)) return 1;
  return failure_raise(L, LP_RESOURCE_EXHAUSTED, "out of memory");
}

/* inspect(id, what, ticket) -> boolean: the handler of events is told the answer, as "answer" with
 * the ticket, a status and either bytes for lp.core.unpack or (another status than 0) a text.
 * False: there is no such node. */
static int host_inspect(lua_State *L) {
  hosted_node *hosted = host_find_node(host_of(L), (uint64_t)luaL_checkinteger(L, 1));
  const char *what = luaL_checkstring(L, 2);
  uint64_t ticket = (uint64_t)luaL_checkinteger(L, 3);
  if (hosted && !inspect_ask(hosted->at->loop, hosted->id, what, ticket))
    return failure_raise(L, LP_RESOURCE_EXHAUSTED, "out of memory");
  lua_pushboolean(L, hosted != NULL);
  return 1;
}

static void set_boolean(lua_State *L, const char *name, bool value) {
  lua_pushboolean(L, value);
  lua_setfield(L, -2, name);
}

/* What is seen of the node's loop from outside. */
static void set_place(lua_State *L, const hosted_loop *at) {
  char where[LOOP_WHERE * 8];
  bool runs = atomic_load(&at->loop->running) != NULL;
  set_boolean(L, "computing", runs);
  set_boolean(L, "mail", mailbox_has(at->loop->box, MAILBOX_MAIL));
  if (!runs) return;
  interrupt_where(at->loop, where);
  lua_pushstring(L, where);
  lua_setfield(L, -2, "where");
  lua_pushnumber(L, host_watch_seconds(at));
  lua_setfield(L, -2, "computing_seconds");
}

/* published(id) -> {state=, stopping=, memory=, computing=, computing_seconds=, where=, mail=}:
 * what is known of a node whose loop does not answer; nil: there is no such node. */
static int host_published(lua_State *L) {
  static const char *const states[] = {"starting", "running", "serving", "draining", "ended"};
  hosted_node *hosted = host_find_node(host_of(L), (uint64_t)luaL_checkinteger(L, 1));
  if (!hosted) return 0;
  node *node = atomic_load(&hosted->node);
  lua_createtable(L, 0, 8);
  lua_pushstring(L, node ? states[atomic_load(&node->state)] : "starting");
  lua_setfield(L, -2, "state");
  set_place(L, hosted->at);
  if (!node) return 1;
  set_boolean(L, "stopping", atomic_load(&node->stopping));
  lua_pushinteger(L, (lua_Integer)atomic_load(&node->memory_bytes));
  lua_setfield(L, -2, "memory");
  return 1;
}

/* metrics(on): whether the calls of nodes made from now on are timed */
static int host_metrics(lua_State *L) {
  host_of(L)->engine.metrics_off = !lua_toboolean(L, 1);
  return 0;
}

/* watchdog(): loops that compute for long are noticed from now on */
static int host_watchdog(lua_State *L) {
  host_watch_start(host_of(L));
  return 0;
}

const luaL_Reg host_inspect_functions[] = {
    {"inspect", host_inspect}, {"inspect_loop", host_inspect_loop}, {"published", host_published},
    {"metrics", host_metrics}, {"watchdog", host_watchdog},         {NULL, NULL},
};
