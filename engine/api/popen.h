/* io.popen for interpreters that share a process. The library's own flushes every stream of
 * the process first, and so waits for a stream that another node reads from, holding a
 * lock that every fopen needs. */
#ifndef LP_API_POPEN_H
#define LP_API_POPEN_H

#include <lua.h>

/* popen(command, [mode]): as io.popen */
int core_popen(lua_State *L);

#endif
