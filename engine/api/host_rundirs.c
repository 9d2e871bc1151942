/* Run folders that this process holds; see host_parts.h and process/rundir.h. */
#include <string.h>

#include "api/host_parts.h"
#include "base/memory.h"
#include "process/rundir.h"

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

static void found_run(void *owner, const char *id, const char *path) {
  (void)owner;
  (void)id;
  (void)path;
}

/* sweep(): removes the folders of runs that died */
static int host_sweep(lua_State *L) {
  (void)L;
  rundir_each(found_run, NULL, NULL);
  return 0;
}

void host_rundirs_clear(host *host) {
  while (!list_empty(&host->rundirs)) dir_remove(list_entry(host->rundirs.next, hosted_dir, link));
}

const luaL_Reg host_rundir_functions[] = {
    {"rundir", host_rundir},
    {"rundir_remove", host_rundir_remove},
    {"rundir_sweep", host_rundir_sweep},
    {"sweep", host_sweep},
    {NULL, NULL},
};
