/* See popen.h. */
#define _GNU_SOURCE /* pipe2 */
#include "api/popen.h"

#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/orphans.h"
#include "runtime/engine.h"
#include "runtime/node.h"

/* What Lua's functions of files take for one of theirs. */
typedef struct piped {
  luaL_Stream stream;
  awaited child;
} piped;

static int close_pipe(lua_State *L) {
  piped *piped = luaL_checkudata(L, 1, LUA_FILEHANDLE);
  int status;
  pid_t ended;
  fclose(piped->stream.f);
  errno = 0;
  do {
    ended = waitpid(piped->child.pid, &status, 0);
  } while (ended < 0 && errno == EINTR);
  int cause = ended < 0 ? errno : 0;
  awaited_forget(&piped->child);
  errno = cause;
  return luaL_execresult(L, ended < 0 ? -1 : status);
}

/* Starts the command with `end` as its standard input or output; errno, or 0. */
static int start(const char *command, int end, int target, pid_t *pid) {
  char *words[] = {"sh", "-c", (char *)command, NULL};
  posix_spawn_file_actions_t actions;
  int error = posix_spawn_file_actions_init(&actions);
  if (error) return error;
  error = posix_spawn_file_actions_adddup2(&actions, end, target);
  if (!error) error = posix_spawn(pid, "/bin/sh", &actions, NULL, words, environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/* Opens the pipe and starts the command; errno, or 0. */
static int open_pipe(piped *piped, const char *command, bool reads) {
  int ends[2];
  pid_t pid = 0;
  if (pipe2(ends, O_CLOEXEC) != 0) return errno;
  int mine = ends[reads ? 0 : 1], its = ends[reads ? 1 : 0];
  piped->stream.f = fdopen(mine, reads ? "r" : "w");
  int error = piped->stream.f ? 0 : errno;
  if (!error) {
    awaited_begin();
    error = start(command, its, reads ? STDOUT_FILENO : STDIN_FILENO, &pid);
    awaited_end(&piped->child, error ? 0 : pid);
    if (error) fclose(piped->stream.f);
  } else {
    close(mine);
  }
  close(its);
  return error;
}

int core_popen(lua_State *L) {
  const char *command = luaL_checkstring(L, 1);
  const char *mode = luaL_optstring(L, 2, "r");
  engine *engine = node_of(L)->engine;
  luaL_argcheck(L, strcmp(mode, "r") == 0 || strcmp(mode, "w") == 0, 2, "invalid mode");
  piped *piped = lua_newuserdatauv(L, sizeof *piped, 0);
  piped->stream.closef = NULL; /* closed, until it is open */
  luaL_setmetatable(L, LUA_FILEHANDLE);
  if (engine->on_child) engine->on_child(engine);
  int error = open_pipe(piped, command, *mode == 'r');
  if (error) {
    errno = error;
    return luaL_fileresult(L, 0, command);
  }
  piped->stream.closef = close_pipe;
  return 1;
}
