/* The functions of lp.core that wait, begin tasks and wake them. */
#ifndef LP_API_CORE_WAIT_H
#define LP_API_CORE_WAIT_H

#include <lauxlib.h>

extern const luaL_Reg core_wait_functions[];

#endif
