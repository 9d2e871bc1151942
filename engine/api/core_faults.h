/* lp.core's functions for specs that have things go wrong; none in builds without fault points. */
#ifndef LP_API_CORE_FAULTS_H
#define LP_API_CORE_FAULTS_H

#include <lauxlib.h>

extern const luaL_Reg core_fault_functions[];

#endif
