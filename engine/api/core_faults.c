/* See core_faults.h. */
#include "api/core_faults.h"

#include "base/fault_point.h"
#include "rpc/peer.h"
#include "runtime/failure.h"

#ifdef LP_FAULTS

/* faults([text]): the process's fault points from now on, as in LP_FAULTS; without text: none. */
static int core_faults(lua_State *L) {
  fault fault;
  if (fault_points_set(luaL_optstring(L, 1, ""), &fault)) return 0;
  return failure_raise(L, fault.status, fault.text);
}

static void tell(void *owner, const char *point, const char *kind, unsigned long count) {
  lua_State *L = owner;
  lua_pushfstring(L, "%s:%s", point, kind);
  lua_pushinteger(L, (lua_Integer)count);
  lua_rawset(L, -3);
}

/* faults_struck() -> how often each has struck since, by "point:kind" */
static int core_faults_struck(lua_State *L) {
  lua_newtable(L);
  fault_points_count(tell, L);
  return 1;
}

static void set_count(lua_State *L, const char *name, lua_Integer count) {
  lua_pushinteger(L, count);
  lua_setfield(L, -2, name);
}

/* Links in use, and the credit that is missing on those dialled from here. */
static void count_links(lua_State *L, const rpc *rpc) {
  lua_Integer links = 0, pending = 0, missing = 0;
  for (const list *each = rpc->peers.next; each != &rpc->peers; each = each->next) {
    const peer *one = list_entry(each, peer, link);
    links += link_is_open(&one->wire);
    pending += one->pending_count;
    if (one->state == PEER_OPEN && !one->foreign)
      missing += (lua_Integer)one->granted.calls - (lua_Integer)one->window;
  }
  set_count(L, "links", links);
  set_count(L, "pending", pending);
  set_count(L, "missing", missing);
}

/* faults_left() -> counts of what this node has in use: tasks, calls that run, wait (held) or are
 * to be answered later (deferred), links, calls from here (pending), timers of its loop, and
 * `missing`, requests whose credit has not come back. */
static int core_faults_left(lua_State *L) {
  const rpc *rpc = rpc_of(L);
  lua_Integer deferred = 0;
  for (const list *each = rpc->deferred.next; each != &rpc->deferred; each = each->next) deferred++;
  lua_newtable(L);
  set_count(L, "tasks", rpc->node->task_count);
  set_count(L, "running", rpc->running);
  set_count(L, "held", rpc->held_count);
  set_count(L, "deferred", deferred);
  set_count(L, "timers", rpc->node->loop->timers.count);
  count_links(L, rpc);
  return 1;
}

const luaL_Reg core_fault_functions[] = {{"faults", core_faults},
                                         {"faults_struck", core_faults_struck},
                                         {"faults_left", core_faults_left},
                                         {NULL, NULL}};

#else

const luaL_Reg core_fault_functions[] = {{NULL, NULL}};

#endif
