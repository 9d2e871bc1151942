/* See core_faults.h. */
#include "api/core_faults.h"

#include "base/fault_point.h"
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

const luaL_Reg core_fault_functions[] = {
    {"faults", core_faults}, {"faults_struck", core_faults_struck}, {NULL, NULL}};

#else

const luaL_Reg core_fault_functions[] = {{NULL, NULL}};

#endif
