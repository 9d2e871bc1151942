/* The nodes of this process: making them on their loops, the service's orders to them, their
 * listeners. See host_parts.h. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/host_parts.h"
#include "base/clock.h"
#include "base/memory.h"
#include "net/listener.h"
#include "rpc/rpc.h"
#include "runtime/interrupt.h"

hosted_node *host_find_node(host *host, uint64_t id) {
  hash_link *link = hash_find(&host->nodes_by_id, id);
  return link ? list_entry(link, hosted_node, by_id) : NULL;
}

static void enter_node(host *host, hosted_node *hosted) {
  list_push(&host->nodes, &hosted->link);
  hash_put(&host->nodes_by_id, &hosted->by_id, hosted->id);
  hosted->at->nodes++;
}

static void leave_node(host *host, hosted_node *hosted) {
  list_remove(&hosted->link);
  hash_remove(&host->nodes_by_id, &hosted->by_id);
  hosted->at->nodes--;
}

/* Ends a loop of ours that has no node. */
static void loop_release(host *host, hosted_loop *hosted) {
  if (!hosted->nodes && !hosted->foreign) host_loop_drop(host, hosted);
}

void host_node_ended(host *host, uint64_t id) {
  hosted_node *hosted = host_find_node(host, id);
  if (!hosted || hosted->adopted) return;
  hosted_loop *at = hosted->at;
  leave_node(host, hosted);
  node_unref(atomic_load(&hosted->node));
  mem_free(hosted);
  loop_release(host, at);
  atomic_fetch_sub(&host->live_nodes, 1);
}

/* Travels to the loop that is to make the node. */
typedef struct birth {
  message message;
  uint64_t id;
  size_t memory_limit, length;
  int64_t timeslice;
  terms terms;
  char *name, *key, *argument;
  hosted_node *hosted; /* there until the node's end was told */
  event *failure;      /* reserved for telling that it came to nothing */
} birth;

static void birth_free(birth *birth) {
  mem_free(birth->name);
  mem_free(birth->key);
  mem_free(birth->argument);
  mem_free(birth->failure);
  mem_free(birth);
}

static void birth_drop(message *carried) {
  birth_free((birth *)carried);
}

static void birth_run(message *carried, void *at) {
  birth *born = (birth *)carried;
  loop *loop = at;
  fault fault;
  node_request request = {.id = born->id,
                          .name = born->name,
                          .key = born->key,
                          .memory_limit = born->memory_limit,
                          .timeslice = born->timeslice,
                          .terms = born->terms,
                          .boot = {"lp.runtime", "boot", born->argument, born->length}};
  node *made = core_node(loop, &request, &fault);
  if (made) {
    atomic_store(&born->hosted->node, node_ref(made));
  } else {
    atomic_fetch_sub(&loop->node_count, 1);
    engine_end(loop->engine, born->key, LP_UNAVAILABLE, fault.text);
    engine_post_end(loop->engine, born->failure, born->id, fault.status, fault.text);
    born->failure = NULL;
  }
  birth_free(born);
}

static char *copy_bytes(const char *bytes, size_t length) {
  char *copy = mem_alloc(length ? length : 1);
  if (copy) memcpy(copy, bytes, length);
  return copy;
}

/* The terms at `index` and behind it; nil: the defaults. */
static terms opt_terms(lua_State *L, int index) {
  lua_Integer calls = luaL_optinteger(L, index, TERMS_CALLS);
  lua_Integer bytes = luaL_optinteger(L, index + 1, TERMS_BYTES);
  luaL_argcheck(L, calls > 0 && calls <= TERMS_MOST_CALLS, index, "a number of calls");
  luaL_argcheck(L, bytes > 0 && bytes <= TERMS_MOST_BYTES, index + 1, "a number of bytes");
  return (terms){(uint32_t)calls, bytes, lua_toboolean(L, index + 2)};
}

static birth *birth_new(lua_State *L, host *host) {
  size_t limit = (size_t)luaL_optinteger(L, 6, 0), length;
  double timeslice = luaL_optnumber(L, 7, 0);
  terms terms = opt_terms(L, 8);
  const char *argument = luaL_checklstring(L, 3, &length);
  birth *born = mem_new(sizeof *born);
  if (!born) return NULL;
  born->message = (message){.run = birth_run, .drop = birth_drop};
  born->id = atomic_fetch_add(&host->engine.next_id, 1);
  born->name = mem_strdup(lua_tostring(L, 1));
  born->key = mem_strdup(lua_tostring(L, 2));
  born->failure = engine_reserve(lua_tostring(L, 2));
  born->memory_limit = limit;
  born->timeslice = clock_from_seconds(timeslice);
  born->terms = terms;
  born->length = length;
  born->argument = copy_bytes(argument, length);
  if (born->name && born->key && born->argument && born->failure) return born;
  birth_free(born);
  return NULL;
}

/* Enters the node everywhere and sends it on its way. Who finds it in the directory can rely
 * on its birth being ahead in the queue. On failure nothing remains of it. */
static lp_status host_place(host *host, hosted_loop *at, birth *born, hosted_node *hosted) {
  uint64_t id = born->id;
  *hosted = (hosted_node){.id = id, .at = at};
  born->hosted = hosted;
  enter_node(host, hosted);
  atomic_fetch_add(&host->live_nodes, 1);
  atomic_fetch_add(&at->loop->node_count, 1);
  lp_status status =
      engine_add(&host->engine, born->key, at->loop->box, id, born->terms, &born->message);
  if (status == LP_OK) return LP_OK;
  leave_node(host, hosted);
  atomic_fetch_sub(&host->live_nodes, 1);
  atomic_fetch_sub(&at->loop->node_count, 1);
  return status;
}

/* start(name, key, argument, loop name or nil, threads, memory limit or nil, time slice in
 * seconds or nil, calls and bytes of one caller under way or nil, whether more fail) -> id */
static int host_start(lua_State *L) {
  host *host = host_of(L);
  fault fault;
  luaL_checkstring(L, 1);
  luaL_checkstring(L, 2);
  luaL_checkstring(L, 3);
  hosted_loop *at =
      host_loop_choose(host, luaL_optstring(L, 4, NULL), luaL_checkinteger(L, 5), &fault);
  if (!at) return host_raise(L, &fault);
  birth *born = birth_new(L, host);
  if (born && born->timeslice > 0) host_loop_slice(host, at, born->timeslice);
  hosted_node *hosted = born ? mem_new(sizeof *hosted) : NULL;
  uint64_t id = born ? born->id : 0;
  lp_status status = hosted ? host_place(host, at, born, hosted) : LP_RESOURCE_EXHAUSTED;
  if (status != LP_OK) {
    mem_free(hosted);
    if (born) birth_free(born);
    loop_release(host, at);
    return failure_raisef(L, status, "cannot start node %s: %s", lua_tostring(L, 1),
                          lp_strerror(status));
  }
  lua_pushinteger(L, (lua_Integer)id);
  return 1;
}

/* What the service asks of a node through its loop's control queue. */
typedef enum order_kind {
  ORDER_STOP,
  ORDER_CANCEL,
  ORDER_KILL,
  ORDER_PAUSE,
  ORDER_RESUME,
  ORDER_INTERRUPT
} order_kind;

typedef struct order {
  message message;
  order_kind kind;
  uint64_t id;
  bool again;        /* came back behind the mail */
  int64_t statement; /* of ORDER_INTERRUPT */
  char text[128];
} order;

static void order_drop(message *carried) {
  mem_free(carried);
}

/* Possibly inside of an interrupt: no Lua may run here. */
static void order_run(message *carried, void *at) {
  order *order = (struct order *)carried;
  loop *here = at;
  node *node = loop_find_node(here, order->id);
  if (!node && !order->again) { /* not born yet: its birth is ahead in the mail */
    order->again = true;
    if (mailbox_push(here->box, MAILBOX_MAIL, carried)) return;
  }
  if (node && order->kind == ORDER_STOP) node_stop(node);
  if (node && order->kind == ORDER_CANCEL) node_cancel(node, "the program is stopping");
  if (node && order->kind == ORDER_PAUSE) node_pause(node, true);
  if (node && order->kind == ORDER_RESUME) node_pause(node, false);
  if (node && order->kind == ORDER_INTERRUPT) node_interrupt(node, order->statement);
  if (node && order->kind == ORDER_KILL) {
    node_set_end(node, LP_CANCELLED, order->text);
    node->killed = true;
    node_ready(node);
  }
  mem_free(order);
}

static int give_order(lua_State *L, order_kind kind) {
  host *host = host_of(L);
  hosted_node *hosted = host_find_node(host, (uint64_t)luaL_checkinteger(L, 1));
  if (!hosted) return 0;
  order *given = mem_new(sizeof *given);
  if (!given) return failure_raise(L, LP_RESOURCE_EXHAUSTED, "out of memory");
  given->message = (message){.run = order_run, .drop = order_drop};
  given->kind = kind;
  given->id = hosted->id;
  if (kind == ORDER_INTERRUPT)
    given->statement = luaL_optinteger(L, 2, 0);
  else
    snprintf(given->text, sizeof given->text, "%s", luaL_optstring(L, 2, "it was killed"));
  if (!mailbox_push(hosted->at->loop->box, MAILBOX_CONTROL, &given->message)) mem_free(given);
  interrupt_send(hosted->at->loop, INTERRUPT_CONTROL);
  return 0;
}

/* stop(id), cancel(id), kill(id, why) */
static int host_stop(lua_State *L) {
  return give_order(L, ORDER_STOP);
}

static int host_cancel(lua_State *L) {
  return give_order(L, ORDER_CANCEL);
}

static int host_kill(lua_State *L) {
  return give_order(L, ORDER_KILL);
}

/* pause(id), resume(id): while a node is paused none of its tasks runs */
static int host_pause(lua_State *L) {
  return give_order(L, ORDER_PAUSE);
}

static int host_resume(lua_State *L) {
  return give_order(L, ORDER_RESUME);
}

/* interrupt(id, statement or nil): ends what the node computes; with the number of a statement only
 * that, which then need not compute */
static int host_interrupt(lua_State *L) {
  return give_order(L, ORDER_INTERRUPT);
}

/* cpu(id) -> seconds of processor time of its loop's thread; nil: there is none */
static int host_cpu(lua_State *L) {
  hosted_node *hosted = host_find_node(host_of(L), (uint64_t)luaL_checkinteger(L, 1));
  struct timespec used;
  clockid_t clock;
  if (!hosted || !hosted->at->loop->threaded ||
      pthread_getcpuclockid(hosted->at->loop->thread, &clock) != 0 ||
      clock_gettime(clock, &used) != 0)
    return 0;
  lua_pushnumber(L, (lua_Number)used.tv_sec + (lua_Number)used.tv_nsec * 1e-9);
  return 1;
}

/* loop_name(id): of a node's loop, "" for one the engine has chosen; nil: there is none */
static int host_loop_name(lua_State *L) {
  hosted_node *hosted = host_find_node(host_of(L), (uint64_t)luaL_checkinteger(L, 1));
  if (!hosted) return 0;
  lua_pushstring(L, hosted->at->loop->name);
  return 1;
}

/* listen(id, path): a Unix socket at `path` is served by the node; id 0: by the service */
static int host_listen(lua_State *L) {
  host *host = host_of(L);
  const char *path = luaL_checkstring(L, 2);
  address address = {.kind = ADDRESS_UNIX};
  fault fault;
  int fd;
  hosted_node *hosted = host_find_node(host, (uint64_t)luaL_checkinteger(L, 1));
  uint64_t id = hosted ? hosted->id : host->service;
  loop *at = hosted ? hosted->at->loop : host->engine.service;
  if (!hosted && luaL_checkinteger(L, 1) != 0)
    return failure_raise(L, LP_UNAVAILABLE, "the node has ended");
  if (strlen(path) >= sizeof address.name)
    return failure_raisef(L, LP_INVALID_ARGUMENT, "socket path too long: %s", path);
  strcpy(address.name, path);
  if (listener_bind(&address, &fd, NULL, &fault) != LP_OK) return host_raise(L, &fault);
  if (!rpc_listen(at->box, id, fd, path))
    return failure_raisef(L, LP_RESOURCE_EXHAUSTED, "no memory to listen on %s", path);
  return 0;
}

/* unlisten(path): the service's own listener there is closed */
static int host_unlisten(lua_State *L) {
  rpc_unlisten(rpc_of(L), luaL_checkstring(L, 1));
  return 0;
}

/* free_port() -> "localhost:N": a TCP port nobody listens on at this moment */
static int host_free_port(lua_State *L) {
  address wanted = {.kind = ADDRESS_TCP, .name = "127.0.0.1"}, bound;
  fault fault;
  int fd;
  if (listener_bind(&wanted, &fd, &bound, &fault) != LP_OK) return host_raise(L, &fault);
  close(fd);
  lua_pushfstring(L, "localhost:%d", (int)bound.port);
  return 1;
}

const luaL_Reg host_node_functions[] = {
    {"start", host_start},
    {"stop", host_stop},
    {"cancel", host_cancel},
    {"kill", host_kill},
    {"listen", host_listen},
    {"unlisten", host_unlisten},
    {"free_port", host_free_port},
    {"loop_name", host_loop_name},
    {"cpu", host_cpu},
    {"interrupt", host_interrupt},
    {"pause", host_pause},
    {"resume", host_resume},
    {NULL, NULL},
};

/* ---- the node of the creator's own loop ------------------------------------- */

bool host_adopt(host *host, loop *loop, uint64_t id) {
  hosted_loop *at = mem_new(sizeof *at);
  hosted_node *hosted = mem_new(sizeof *hosted);
  if (!at || !hosted) {
    mem_free(at);
    mem_free(hosted);
    return false;
  }
  *at = (hosted_loop){.loop = loop, .foreign = true};
  *hosted = (hosted_node){.id = id, .at = at, .adopted = true};
  list_push(&host->loops, &at->link);
  enter_node(host, hosted);
  atomic_fetch_add(&host->live_nodes, 1);
  atomic_fetch_add(&loop->node_count, 1);
  return true;
}

/* Runs on the service thread, on behalf of one that waits. */
typedef struct forgetting {
  message message;
  host *host;
  sem_t done;
} forgetting;

static void forgetting_run(message *carried, void *at) {
  (void)at;
  forgetting *asked = (forgetting *)carried;
  host *host = asked->host;
  for (list *each = host->nodes.next, *next; each != &host->nodes; each = next) {
    next = each->next;
    hosted_node *hosted = list_entry(each, hosted_node, link);
    if (!hosted->adopted) continue;
    leave_node(host, hosted);
    host_loop_drop(host, hosted->at);
    node_unref(atomic_load(&hosted->node));
    mem_free(hosted);
    atomic_fetch_sub(&host->live_nodes, 1);
  }
  sem_post(&asked->done);
}

static void forgetting_drop(message *carried) {
  sem_post(&((forgetting *)carried)->done);
}

void host_forget_adopted(host *host) {
  forgetting asked = {{.run = forgetting_run, .drop = forgetting_drop}, .host = host};
  sem_init(&asked.done, 0, 0);
  if (mailbox_push(host->engine.service->box, MAILBOX_MAIL, &asked.message))
    while (sem_wait(&asked.done) != 0) continue;
  sem_destroy(&asked.done);
}
