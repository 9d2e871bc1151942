/* The functions of lp.core that print and log. */
#ifndef LP_API_CORE_PRINT_H
#define LP_API_CORE_PRINT_H

#include <lauxlib.h>

extern const luaL_Reg core_print_functions[];

#endif
