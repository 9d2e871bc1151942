/* See core_print.h. What a node prints goes to its lines; when they are full, the task waits. */
#include "api/core_print.h"

#include "base/clock.h"
#include "runtime/lines.h"
#include "runtime/task.h"

static int write_waited(lua_State *L, int status, lua_KContext context);

/* Waits while more is under way than the service thread has printed. */
static int write_room(lua_State *L) {
  node *node = node_of(L);
  if (!lines_full(node) || !node_can_yield(node, L) || node->closing) return 0;
  task *task = node->current;
  if (task->cancelled != LP_OK) return 0;
  return task_yield(L, task, clock_now() + 2000000, 0, write_waited);
}

static int write_waited(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  task_after_wait(L);
  return write_room(L);
}

/* write(stream, ...): strings and numbers, to 1 (stdout) or 2 (stderr) */
static int core_write(lua_State *L) {
  node *node = node_of(L);
  int stream = luaL_checkinteger(L, 1) == 2 ? 2 : 1;
  int count = lua_gettop(L);
  for (int i = 2; i <= count; i++) {
    size_t length;
    const char *text = luaL_checklstring(L, i, &length);
    if (!lines_write(node, stream, text, length)) return luaL_error(L, "not enough memory");
  }
  return write_room(L);
}

static int core_print(lua_State *L) {
  node *node = node_of(L);
  int count = lua_gettop(L);
  luaL_Buffer line;
  luaL_buffinit(L, &line);
  for (int i = 1; i <= count; i++) {
    if (i > 1) luaL_addchar(&line, '\t');
    luaL_tolstring(L, i, NULL);
    luaL_addvalue(&line);
  }
  luaL_addchar(&line, '\n');
  luaL_pushresult(&line);
  size_t length;
  const char *text = lua_tolstring(L, -1, &length);
  if (!lines_write(node, 1, text, length)) return luaL_error(L, "not enough memory");
  return write_room(L);
}

static int core_flush(lua_State *L) {
  lines_flush(node_of(L));
  return 0;
}

/* log(level, text) */
static int core_log(lua_State *L) {
  static const char *const levels[] = {"debug", "info", "warning", "error", NULL};
  int level = luaL_checkoption(L, 1, NULL, levels);
  size_t length;
  const char *text = luaL_checklstring(L, 2, &length);
  lines_log(node_of(L), level, text, length);
  return 0;
}

const luaL_Reg core_print_functions[] = {
    {"write", core_write}, {"print", core_print}, {"flush", core_flush},
    {"log", core_log},     {NULL, NULL},
};
