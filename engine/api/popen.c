/* See popen.h. */
#include "api/popen.h"

#include <errno.h>
#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "runtime/engine.h"
#include "runtime/node.h"

static int close_pipe(lua_State *L) {
  luaL_Stream *stream = luaL_checkudata(L, 1, LUA_FILEHANDLE);
  errno = 0;
  return luaL_execresult(L, pclose(stream->f));
}

int core_popen(lua_State *L) {
  const char *command = luaL_checkstring(L, 1);
  const char *mode = luaL_optstring(L, 2, "r");
  engine *engine = node_of(L)->engine;
  luaL_argcheck(L, strcmp(mode, "r") == 0 || strcmp(mode, "w") == 0, 2, "invalid mode");
  luaL_Stream *stream = lua_newuserdatauv(L, sizeof *stream, 0);
  stream->closef = NULL; /* closed, until it is open */
  luaL_setmetatable(L, LUA_FILEHANDLE);
  if (engine->on_child) engine->on_child(engine);
  errno = 0;
  stream->f = popen(command, mode);
  stream->closef = close_pipe;
  return stream->f ? 1 : luaL_fileresult(L, 0, command);
}
