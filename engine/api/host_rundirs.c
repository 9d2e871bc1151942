/* Run folders that this process holds, and temporary folders; see host_parts.h,
 * process/rundir.h, process/tmpdir.h. */
#include <stdatomic.h>
#include <string.h>

#include "api/host_parts.h"
#include "base/buffer.h"
#include "base/memory.h"
#include "process/rundir.h"
#include "process/tmpdir.h"

/* A run folder this process holds. */
typedef struct hosted_dir {
  list link; /* host->rundirs */
  rundir dir;
  char id[];
} hosted_dir;

static void dir_remove(hosted_dir *held) {
  list_remove(&held->link);
  rundir_remove(&held->dir);
  mem_free(held);
}

/* serial() -> a number that was not given before in this process, by no engine */
static int host_serial(lua_State *L) {
  static atomic_llong last;
  lua_pushinteger(L, atomic_fetch_add(&last, 1) + 1);
  return 1;
}

/* rundir(id) -> path */
static int host_rundir(lua_State *L) {
  host *host = host_of(L);
  fault fault;
  size_t length;
  const char *id = luaL_checklstring(L, 1, &length);
  hosted_dir *held = mem_new(sizeof *held + length + 1);
  if (!held) return failure_raise(L, LP_RESOURCE_EXHAUSTED, "no memory for a run folder");
  if (rundir_create(id, &held->dir, &fault) != LP_OK) {
    mem_free(held);
    return host_raise(L, &fault);
  }
  memcpy(held->id, id, length + 1);
  list_push(&host->rundirs, &held->link);
  lua_pushstring(L, held->dir.path);
  return 1;
}

static hosted_dir *find_dir(host *host, const char *id) {
  for (list *each = host->rundirs.next; each != &host->rundirs; each = each->next) {
    hosted_dir *held = list_entry(each, hosted_dir, link);
    if (strcmp(held->id, id) == 0) return held;
  }
  return NULL;
}

static int host_rundir_remove(lua_State *L) {
  hosted_dir *held = find_dir(host_of(L), luaL_checkstring(L, 1));
  if (held) dir_remove(held);
  return 0;
}

static int host_rundir_sweep(lua_State *L) {
  lua_pushboolean(L, rundir_sweep(luaL_checkstring(L, 1)));
  return 1;
}

/* rundir_write(id, file, text): whole or not at all */
static int host_rundir_write(lua_State *L) {
  fault fault;
  size_t length;
  hosted_dir *held = find_dir(host_of(L), luaL_checkstring(L, 1));
  const char *file = luaL_checkstring(L, 2), *text = luaL_checklstring(L, 3, &length);
  if (!held) return failure_raise(L, LP_NOT_FOUND, "the run has no folder any more");
  if (rundir_write(&held->dir, file, text, length, &fault) != LP_OK) return host_raise(L, &fault);
  return 0;
}

static void found_run(void *owner, const char *id, const char *path) {
  (void)owner;
  (void)id;
  (void)path;
}

/* tmpdir() -> path of a fresh private folder */
static int host_tmpdir(lua_State *L) {
  char path[512];
  fault fault;
  if (tmpdir_create(path, sizeof path, &fault) != LP_OK) return host_raise(L, &fault);
  lua_pushstring(L, path);
  return 1;
}

static int host_tmpdir_remove(lua_State *L) {
  tmpdir_remove(luaL_checkstring(L, 1));
  return 0;
}

/* sweep(): removes the folders of runs that died */
static int host_sweep(lua_State *L) {
  (void)L;
  tmpdir_sweep();
  rundir_each(found_run, NULL, NULL);
  return 0;
}

/* What rundir_each finds, collected without Lua, which may raise. */
static void list_run(void *owner, const char *id, const char *path) {
  buffer *found = owner;
  buffer_append(found, id, strlen(id) + 1);
  buffer_append(found, path, strlen(path) + 1);
}

static int push_runs(lua_State *L) {
  const buffer *found = lua_touserdata(L, 1);
  const char *at = (const char *)found->data, *end = at + found->length;
  lua_newtable(L);
  while (at < end) {
    const char *id = at;
    at += strlen(at) + 1;
    lua_pushstring(L, at);
    lua_setfield(L, -2, id);
    at += strlen(at) + 1;
  }
  return 1;
}

/* runs() -> the folders of all runs that live, by id */
static int host_runs(lua_State *L) {
  buffer found = {0};
  fault fault;
  lua_pushcfunction(L, push_runs);
  lua_pushlightuserdata(L, &found);
  if (rundir_each(list_run, &found, &fault) != LP_OK) {
    buffer_fini(&found);
    return host_raise(L, &fault);
  }
  int status = lua_pcall(L, 1, 1, 0);
  buffer_fini(&found);
  return status == LUA_OK ? 1 : lua_error(L);
}

void host_rundirs_clear(host *host) {
  while (!list_empty(&host->rundirs)) dir_remove(list_entry(host->rundirs.next, hosted_dir, link));
}

const luaL_Reg host_rundir_functions[] = {
    {"serial", host_serial},
    {"rundir", host_rundir},
    {"rundir_remove", host_rundir_remove},
    {"rundir_write", host_rundir_write},
    {"runs", host_runs},
    {"rundir_sweep", host_rundir_sweep},
    {"sweep", host_sweep},
    {"tmpdir", host_tmpdir},
    {"tmpdir_remove", host_tmpdir_remove},
    {NULL, NULL},
};
