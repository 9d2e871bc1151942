/* Output of nodes that goes to files instead of this process's own: by the key of the node, or of
 * the colocation whose nodes share a process. See host_parts.h and process/logfile.h. */
#include <stdio.h>
#include <string.h>

#include "api/host_parts.h"
#include "base/memory.h"
#include "process/logfile.h"

typedef struct route {
  list link; /* host->routes */
  host *host;
  logfile *file;
  divert divert;
  char key[];
} route;

/* Said once, not at every line. */
static void say_full(route *full) {
  int cause;
  char words[FAULT_TEXT];
  if (full->host->said_full || !logfile_lost(full->file, &cause)) return;
  full->host->said_full = true;
  int length = snprintf(words, sizeof words, "lp: warning: output is lost: %.300s: %s\n",
                        logfile_path(full->file), strerror(cause));
  printer_lines(full->host->printer, 2, "", -1, words, (size_t)length);
}

static void to_file(void *owner, const char *text, size_t length) {
  route *taken = owner;
  logfile_write(taken->file, text, length);
  say_full(taken);
}

static route *find_route(const host *host, const char *key) {
  for (const list *each = host->routes.next; each != &host->routes; each = each->next) {
    route *one = list_entry(each, route, link);
    if (strcmp(one->key, key) == 0) return one;
  }
  return NULL;
}

const divert *host_divert(const host *host, const char *key) {
  route *found = list_empty(&host->routes) ? NULL : find_route(host, key);
  return found ? &found->divert : NULL;
}

static void route_free(route *ended) {
  list_remove(&ended->link);
  logfile_close(ended->file);
  mem_free(ended);
}

/* route(key, path, limit in bytes) -> path: what the node prints goes to a file */
static int host_route(lua_State *L) {
  host *host = host_of(L);
  size_t length;
  const char *key = luaL_checklstring(L, 1, &length);
  fault fault;
  route *made = mem_new(sizeof *made + length + 1);
  if (!made) return failure_raise(L, LP_RESOURCE_EXHAUSTED, "no memory for a log file");
  made->host = host;
  made->divert = (divert){to_file, made};
  memcpy(made->key, key, length + 1);
  if (logfile_open(luaL_checkstring(L, 2), (size_t)luaL_checkinteger(L, 3), &made->file, &fault) !=
      LP_OK) {
    mem_free(made);
    return host_raise(L, &fault);
  }
  list_push(&host->routes, &made->link);
  lua_pushstring(L, logfile_path(made->file));
  return 1;
}

/* unroute(run): its nodes and processes have ended */
static int host_unroute(lua_State *L) {
  host *host = host_of(L);
  size_t length;
  const char *run = luaL_checklstring(L, 1, &length);
  for (list *each = host->routes.next, *next; each != &host->routes; each = next) {
    next = each->next;
    route *one = list_entry(each, route, link);
    if (strncmp(one->key, run, length) == 0 && one->key[length] == '/') route_free(one);
  }
  return 0;
}

void host_routes_clear(host *host) {
  while (!list_empty(&host->routes)) route_free(list_entry(host->routes.next, route, link));
}

const luaL_Reg host_route_functions[] = {
    {"route", host_route},
    {"unroute", host_unroute},
    {NULL, NULL},
};
