/* Processes: children with their output, signals to and from this one, and what the policy
 * wants to know of it. See host_parts.h. */
#define _GNU_SOURCE /* pipe2 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/host_parts.h"
#include "base/clock.h"
#include "base/memory.h"
#include "process/spawn.h"

/* A child process with the pipes of its output. */
typedef struct hosted_child {
  list link; /* host->children */
  host *host;
  child *child;
  printer_source *sources[2]; /* stdout (or both), stderr */
} hosted_child;

enum { PARTIAL_NS = 200000000 };

/* Lines that children began and do not end are shown after a moment. */
static void on_partial(timer *fired) {
  host *host = list_entry(fired, struct host, partial);
  for (list *each = host->children.next; each != &host->children; each = each->next) {
    hosted_child *one = list_entry(each, hosted_child, link);
    for (int i = 0; i < 2; i++)
      if (one->sources[i]) printer_source_tick(one->sources[i], clock_now());
  }
  if (!list_empty(&host->children))
    timer_start(&host->engine.service->timers, fired, clock_now() + PARTIAL_NS);
}

static void source_ended(void *owner) {
  (void)owner;
}

static void hosted_child_free(hosted_child *ended) {
  printer_source_free(ended->sources[0]);
  printer_source_free(ended->sources[1]);
  child_free(ended->child);
  list_remove(&ended->link);
  mem_free(ended);
}

static void on_child(void *owner, pid_t pid, int status, int number) {
  hosted_child *ended = owner;
  host *host = ended->host;
  hosted_child_free(ended);
  char name[24];
  snprintf(name, sizeof name, "%d", (int)pid);
  host_tell(host, (told){.kind = "child", .first = status, .second = number, .name = name});
}

/* The strings of the array at `index`, NULL-terminated; memory of the Lua state. */
static char **string_array(lua_State *L, int index) {
  lua_Integer count = luaL_len(L, index);
  char **strings = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *strings, 0);
  for (lua_Integer i = 0; i < count; i++) {
    lua_rawgeti(L, index, i + 1);
    strings[i] = (char *)luaL_checkstring(L, -1);
    lua_pop(L, 1); /* the table keeps it */
  }
  strings[count] = NULL;
  return strings;
}

static void close_pair(int pair[2]) {
  if (pair[0] >= 0) close(pair[0]);
  if (pair[1] >= 0) close(pair[1]);
}

/* Ends a process that has just been started and cannot be watched. */
static void kill_unwatched(pid_t pid) {
  kill(-pid, SIGKILL);
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
}

/* Starts the process with its watch and leaves the ends of its output that are ours in `out`;
 * on failure none is open. Its stdout and stderr share one pipe when ours go to one file, so
 * that their order is kept: then out[1] is -1. */
static lp_status start_child(hosted_child *made, spawn_request *request, int out[2], fault *fault) {
  host *host = made->host;
  int pipes[2][2] = {{-1, -1}, {-1, -1}};
  bool merged = printer_merged(host->printer);
  if (pipe2(pipes[0], O_CLOEXEC) != 0 || (!merged && pipe2(pipes[1], O_CLOEXEC) != 0)) {
    int cause = errno;
    close_pair(pipes[0]);
    return fault_set(fault, LP_RESOURCE_EXHAUSTED, "cannot start a process: %s", strerror(cause));
  }
  request->stdout_fd = pipes[0][1];
  request->stderr_fd = pipes[merged ? 0 : 1][1];
  pid_t pid;
  lp_status status = spawn_process(request, &pid, fault);
  if (status == LP_OK) {
    made->child = child_watch(host->engine.service->poller, pid, on_child, made, fault);
    if (!made->child) kill_unwatched(pid);
  }
  for (int i = 0; i < 2; i++) {
    out[i] = made->child ? pipes[i][0] : -1;
    if (made->child) pipes[i][0] = -1;
    close_pair(pipes[i]);
  }
  return made->child ? LP_OK : fault->status;
}

/* spawn(file, argv, envp, prefix, hue, working folder or nil, key or nil, is it ours) -> pid. Its
 * output is printed behind the prefix, or goes where that of `key` goes. */
static int host_spawn(lua_State *L) {
  host *host = host_of(L);
  lua_settop(L, 8); /* string_array pushes */
  const char *prefix = luaL_checkstring(L, 4);
  int hue = (int)luaL_checkinteger(L, 5), out[2];
  spawn_request request = {.file = luaL_checkstring(L, 1),
                           .argv = string_array(L, 2),
                           .envp = string_array(L, 3),
                           .folder = luaL_optstring(L, 6, NULL),
                           .deaf = lua_toboolean(L, 8)};
  const divert *aside = lua_isnoneornil(L, 7) ? NULL : host_divert(host, luaL_checkstring(L, 7));
  fault fault;
  hosted_child *made = mem_new(sizeof *made);
  if (!made) return failure_raise(L, LP_RESOURCE_EXHAUSTED, "no memory for a process");
  made->host = host;
  if (start_child(made, &request, out, &fault) != LP_OK) {
    mem_free(made);
    return host_raise(L, &fault);
  }
  list_push(&host->children, &made->link);
  if (!timer_running(&host->partial))
    timer_start(&host->engine.service->timers, &host->partial, clock_now() + PARTIAL_NS);
  bool heard = true;
  for (int i = 0; i < 2 && out[i] >= 0; i++) {
    made->sources[i] =
        printer_source_new(host->printer, out[i], i + 1, prefix, hue, source_ended, made);
    if (!made->sources[i])
      heard = false;
    else
      printer_source_divert(made->sources[i], aside);
  }
  if (!heard) {
    child_signal(made->child, SIGKILL, 1); /* on_child frees */
    return failure_raise(L, LP_RESOURCE_EXHAUSTED, "cannot start a process: no memory for output");
  }
  lua_pushinteger(L, child_pid(made->child));
  return 1;
}

/* signal(pid, number, group): to a child of ours that still lives; true when there is one */
static int host_signal(lua_State *L) {
  host *host = host_of(L);
  pid_t pid = (pid_t)luaL_checkinteger(L, 1);
  int number = (int)luaL_checkinteger(L, 2);
  for (list *each = host->children.next; each != &host->children; each = each->next) {
    hosted_child *one = list_entry(each, hosted_child, link);
    if (child_pid(one->child) != pid) continue;
    child_signal(one->child, number, lua_toboolean(L, 3));
    lua_pushboolean(L, 1);
    return 1;
  }
  lua_pushboolean(L, 0);
  return 1;
}

/* kill_group(): this process and all of its group, at once */
static int host_kill_group(lua_State *L) {
  (void)L;
  kill(0, SIGKILL);
  return 0;
}

void host_children_init(host *host) {
  list_init(&host->children);
  timer_init(&host->partial, on_partial);
}

void host_children_clear(host *host) {
  timer_stop(&host->engine.service->timers, &host->partial);
  while (!list_empty(&host->children)) {
    hosted_child *one = list_entry(host->children.next, hosted_child, link);
    child_signal(one->child, SIGKILL, 1);
    hosted_child_free(one);
  }
}

/* ---- signals to this process ------------------------------------------------ */

static void on_signals(void *owner, unsigned events) {
  (void)events;
  host *host = owner;
  unsigned char number;
  while (read(host->options.signal_fd, &number, 1) == 1)
    host_tell(host, (told){.kind = "signal", .first = number});
}

void host_signals_watch(host *host) {
  int fd = host->options.signal_fd;
  if (fd < 0) return;
  host->signals = poller_watch_new(host->engine.service->poller, fd, POLLER_READ, on_signals, host);
}

/* ---- this process ----------------------------------------------------------- */

static int host_pid(lua_State *L) {
  lua_pushinteger(L, getpid());
  return 1;
}

/* command() -> the program of node processes: as the embedding program wants it, else
 * $LP_COMMAND, else this program */
static int host_command(lua_State *L) {
  char path[4096];
  const char *wanted = host_of(L)->options.command;
  if (!wanted) wanted = getenv("LP_COMMAND");
  if (wanted) {
    lua_pushstring(L, wanted);
    return 1;
  }
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length < 0) return 0;
  lua_pushlstring(L, path, (size_t)length);
  return 1;
}

extern char **environ;

/* environment() -> array of "NAME=value" */
static int host_environment(lua_State *L) {
  lua_newtable(L);
  for (lua_Integer i = 0; environ && environ[i]; i++) {
    lua_pushstring(L, environ[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

const luaL_Reg host_child_functions[] = {
    {"spawn", host_spawn}, {"signal", host_signal},   {"kill_group", host_kill_group},
    {"pid", host_pid},     {"command", host_command}, {"environment", host_environment},
    {NULL, NULL},
};
