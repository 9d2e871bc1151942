/* See host.h. Everything here runs on the service thread, except for making and freeing. */
#define _GNU_SOURCE /* pipe2 */
#include "api/host.h"

#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "net/listener.h"
#include "process/printer.h"
#include "process/rundir.h"
#include "process/spawn.h"
#include "rpc/rpc.h"
#include "runtime/failure.h"
#include "runtime/interrupt.h"

enum {
  PRINT_LIMIT = 1 << 20,
  HUES = 6,
  SLICE_NS = 10000000,
  SLICE_LEAST = 1000000,
  SPIN_NS = 20000
};

/* A loop that hosts nodes of this process. */
typedef struct hosted_loop {
  list link; /* host->loops */
  loop *loop;
  bool shared;   /* by name, or because there are more nodes than threads */
  bool foreign;  /* the main thread's: not ours to end */
  uint64_t seen; /* resumes at the last tick */
} hosted_loop;

/* A node of this process. */
typedef struct hosted_node {
  list link; /* host->nodes */
  uint64_t id;
  hosted_loop *at;
} hosted_node;

/* A child process with the pipes of its output. */
typedef struct hosted_child {
  list link; /* host->children */
  struct host *host;
  child *child;
  printer_source *sources[2];
} hosted_child;

struct host {
  engine engine;
  uint64_t service; /* id of the policy's node; see host_service */
  printer *printer;
  host_options options;
  size_t held_back; /* bytes counted as queued although the printer has them */
  list loops, nodes, children;
  int shared_loops;
  int events; /* registry reference of the service's handler */
  timer tick;
  int64_t slice_ns; /* between ticks */
  poller_watch *signals;
  list rundirs;
  bool closing;          /* host_free is at work */
  bool said_failed;      /* that the policy failed */
  atomic_int live_nodes; /* for host_free, which another thread calls */
};

static host *host_of(lua_State *L) {
  return node_of(L)->engine->owner;
}

static int raise_fault(lua_State *L, const fault *fault) {
  return failure_raise(L, fault->status, fault->text);
}

/* ---- telling the policy ----------------------------------------------------- */

typedef struct told {
  host *host;
  const char *kind;
  lua_Integer first, second;
  const char *name, *text;
  size_t length;
} told;

/* In node_enter: starts a task handler(kind, first, second, name, text). */
static int tell(lua_State *L) {
  told *told = lua_touserdata(L, 1);
  if (told->host->events == LUA_NOREF) return 0;
  lua_rawgeti(L, LUA_REGISTRYINDEX, told->host->events);
  lua_pushstring(L, told->kind);
  lua_pushinteger(L, told->first);
  lua_pushinteger(L, told->second);
  lua_pushstring(L, told->name);
  lua_pushlstring(L, told->text ? told->text : "", told->length);
  rpc_spawn(L, 5);
  return 0;
}

/* The policy's node, NULL once it has ended. Its loop hosts no other. */
static node *host_service(const host *host) {
  return loop_find_node(host->engine.service, host->service);
}

/* Words of the engine itself, past the printer when that finds no memory. */
static void say(host *host, const char *text, size_t length) {
  if (printer_lines(host->printer, 2, "", -1, text, length)) return;
  ssize_t written = write(STDERR_FILENO, text, length);
  (void)written;
}

/* Said once. */
static void say_failed(host *host, const char *why) {
  char words[FAULT_TEXT];
  int length = snprintf(words, sizeof words, "lp: the engine's service ended: %s\n", why);
  if (!host->said_failed)
    say(host, words, (size_t)length < sizeof words ? (size_t)length : sizeof words - 1);
  host->said_failed = true;
}

/* What the policy cannot be told it would wait for without end: then it has failed. */
static void host_tell(host *host, told told) {
  node *service = host_service(host);
  fault fault;
  told.host = host;
  if (!service || node_enter(service, tell, &told, &fault)) return;
  say_failed(host, fault.text);
  node_set_end(service, fault.status, fault.text);
  service->killed = true;
  node_ready(service);
}

/* ---- output ----------------------------------------------------------------- */

/* "run/label/index" -> "[label/index] ", empty for what is no node of a run. */
static const char *prefix_of(const host *host, const char *key, char *out, size_t size) {
  const char *name = strchr(key, '/');
  *out = 0;
  if (name && name != key && !host->options.bare) snprintf(out, size, "[%s] ", name + 1);
  return out;
}

static void on_room(void *owner) {
  host *host = owner;
  atomic_fetch_sub(&host->engine.output_queued, host->held_back);
  host->held_back = 0;
}

static void print_event(host *host, const event *event) {
  char prefix[128];
  prefix_of(host, event->name, prefix, sizeof prefix);
  printer_lines(host->printer, event->status, prefix, (int)(event->id % HUES), event->text,
                event->length);
  if (printer_full(host->printer)) {
    host->held_back += event->length;
  } else {
    atomic_fetch_sub(&host->engine.output_queued, event->length);
  }
}

static void forget_node(host *host, uint64_t id);
static void host_clear(host *host);

/* The policy has ended without being asked to, most likely for want of memory: nobody is left
 * to end things in order. What is in this process goes with it. */
static void service_failed(host *host, const event *event) {
  say_failed(host, event->text);
  host_clear(host);
}

static void on_event(engine *engine, const event *event) {
  host *host = engine->owner;
  switch (event->kind) {
    case EVENT_OUTPUT: print_event(host, event); break;
    case EVENT_LOG:
      host_tell(host, (told){.kind = "log",
                             .first = event->status,
                             .name = event->name,
                             .text = event->text,
                             .length = event->length});
      break;
    case EVENT_NODE_ENDED:
      if (event->id == host->service && (event->status != LP_OK || !host->closing))
        service_failed(host, event);
      forget_node(host, event->id);
      host_tell(host, (told){.kind = "node",
                             .first = (lua_Integer)event->id,
                             .second = event->status,
                             .name = event->name,
                             .text = event->text,
                             .length = event->length});
      break;
    case EVENT_SIGNAL: break;
  }
}

/* print(stream, prefix, hue, text) */
static int host_print(lua_State *L) {
  host *host = host_of(L);
  size_t length;
  int stream = luaL_checkinteger(L, 1) == 2 ? 2 : 1;
  const char *text = luaL_checklstring(L, 4, &length);
  printer_lines(host->printer, stream, luaL_checkstring(L, 2), (int)luaL_checkinteger(L, 3), text,
                length);
  return 0;
}

/* ---- loops ------------------------------------------------------------------ */

/* While there are loops with slices: whoever has run since the last tick gives way. */
static void on_tick(timer *timer) {
  host *host = list_entry(timer, struct host, tick);
  for (list *each = host->loops.next; each != &host->loops; each = each->next) {
    hosted_loop *hosted = list_entry(each, hosted_loop, link);
    uint64_t resumes = atomic_load_explicit(&hosted->loop->resumes, memory_order_relaxed);
    if (hosted->shared && atomic_load(&hosted->loop->running) && resumes == hosted->seen)
      interrupt_send(hosted->loop, INTERRUPT_SLICE);
    hosted->seen = resumes;
  }
  if (host->shared_loops)
    timer_start(&host->engine.service->timers, timer, clock_now() + host->slice_ns);
}

static void loop_shared(host *host, hosted_loop *hosted) {
  if (hosted->shared) return;
  hosted->shared = true;
  if (host->shared_loops++ == 0)
    timer_start(&host->engine.service->timers, &host->tick, clock_now() + host->slice_ns);
}

/* A node there has its tasks preempted, perhaps more often than nodes are. */
static void loop_sliced(host *host, hosted_loop *hosted, int64_t slice_ns) {
  if (slice_ns < host->slice_ns) host->slice_ns = slice_ns < SLICE_LEAST ? SLICE_LEAST : slice_ns;
  loop_shared(host, hosted);
}

static hosted_loop *loop_make(host *host, const char *name, fault *fault) {
  hosted_loop *made = mem_new(sizeof *made);
  if (!made) {
    fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for a loop");
    return NULL;
  }
  made->loop = loop_new(&host->engine, name, fault);
  if (made->loop) made->loop->spin_ns = host->engine.spin_ns;
  if (!made->loop || loop_start(made->loop, fault) != LP_OK) {
    loop_free(made->loop);
    mem_free(made);
    return NULL;
  }
  list_push(&host->loops, &made->link);
  return made;
}

static void loop_drop(host *host, hosted_loop *hosted) {
  if (hosted->shared) host->shared_loops--;
  list_remove(&hosted->link);
  if (!hosted->foreign) {
    loop_quit(hosted->loop);
    loop_free(hosted->loop);
  }
  mem_free(hosted);
}

/* The loop for a new node: by name, its own, or the one with the fewest nodes. */
static hosted_loop *loop_choose(host *host, const char *name, lua_Integer threads, fault *fault) {
  hosted_loop *least = NULL;
  lua_Integer count = 0;
  for (list *each = host->loops.next; each != &host->loops; each = each->next) {
    hosted_loop *hosted = list_entry(each, hosted_loop, link);
    if (name && strcmp(hosted->loop->name, name) == 0) {
      loop_shared(host, hosted);
      return hosted;
    }
    if (hosted->loop->name[0]) continue; /* somebody's choice, or the main thread's */
    count++;
    if (!least || atomic_load(&hosted->loop->node_count) < atomic_load(&least->loop->node_count))
      least = hosted;
  }
  if (name || count < threads || !least) return loop_make(host, name ? name : "", fault);
  loop_shared(host, least);
  return least;
}

/* ---- nodes of this process -------------------------------------------------- */

static hosted_node *find_node(host *host, uint64_t id) {
  for (list *each = host->nodes.next; each != &host->nodes; each = each->next) {
    hosted_node *hosted = list_entry(each, hosted_node, link);
    if (hosted->id == id) return hosted;
  }
  return NULL;
}

/* Ends a loop of ours that has no node. */
static void loop_release(host *host, hosted_loop *hosted) {
  for (list *each = host->nodes.next; each != &host->nodes; each = each->next)
    if (list_entry(each, hosted_node, link)->at == hosted) return;
  if (!hosted->foreign) loop_drop(host, hosted);
}

static void forget_node(host *host, uint64_t id) {
  hosted_node *hosted = find_node(host, id);
  if (!hosted || hosted->at->foreign) return;
  hosted_loop *at = hosted->at;
  list_remove(&hosted->link);
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
  char *name, *key, *argument;
  event *failure; /* reserved for telling that it came to nothing */
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
                          .boot = {"lp.runtime", "boot", born->argument, born->length}};
  if (!core_node(loop, &request, &fault)) {
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

static birth *birth_new(lua_State *L, host *host) {
  size_t limit = (size_t)luaL_optinteger(L, 6, 0), length;
  double timeslice = luaL_optnumber(L, 7, 0);
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
  list_push(&host->nodes, &hosted->link);
  atomic_fetch_add(&host->live_nodes, 1);
  atomic_fetch_add(&at->loop->node_count, 1);
  lp_status status = engine_add(&host->engine, born->key, at->loop->box, id, &born->message);
  if (status == LP_OK) return LP_OK;
  list_remove(&hosted->link);
  atomic_fetch_sub(&host->live_nodes, 1);
  atomic_fetch_sub(&at->loop->node_count, 1);
  return status;
}

/* start(name, key, argument, loop name or nil, threads, memory limit or nil, time slice in
 * seconds or nil) -> id */
static int host_start(lua_State *L) {
  host *host = host_of(L);
  fault fault;
  luaL_checkstring(L, 1);
  luaL_checkstring(L, 2);
  luaL_checkstring(L, 3);
  hosted_loop *at = loop_choose(host, luaL_optstring(L, 4, NULL), luaL_checkinteger(L, 5), &fault);
  if (!at) return raise_fault(L, &fault);
  birth *born = birth_new(L, host);
  if (born && born->timeslice > 0) loop_sliced(host, at, born->timeslice);
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
typedef enum order_kind { ORDER_STOP, ORDER_CANCEL, ORDER_KILL } order_kind;

typedef struct order {
  message message;
  order_kind kind;
  uint64_t id;
  bool again; /* came back behind the mail */
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
  if (node && order->kind == ORDER_KILL) {
    node_set_end(node, LP_CANCELLED, order->text);
    node->killed = true;
    node_ready(node);
  }
  mem_free(order);
}

static int give_order(lua_State *L, order_kind kind) {
  host *host = host_of(L);
  hosted_node *hosted = find_node(host, (uint64_t)luaL_checkinteger(L, 1));
  if (!hosted) return 0;
  order *given = mem_new(sizeof *given);
  if (!given) return failure_raise(L, LP_RESOURCE_EXHAUSTED, "out of memory");
  given->message = (message){.run = order_run, .drop = order_drop};
  given->kind = kind;
  given->id = hosted->id;
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

/* listen(id, path): a Unix socket at `path` is served by the node; id 0: by the service */
static int host_listen(lua_State *L) {
  host *host = host_of(L);
  const char *path = luaL_checkstring(L, 2);
  address address = {.kind = ADDRESS_UNIX};
  fault fault;
  int fd;
  hosted_node *hosted = find_node(host, (uint64_t)luaL_checkinteger(L, 1));
  uint64_t id = hosted ? hosted->id : host->service;
  loop *at = hosted ? hosted->at->loop : host->engine.service;
  if (!hosted && luaL_checkinteger(L, 1) != 0)
    return failure_raise(L, LP_UNAVAILABLE, "the node has ended");
  if (strlen(path) >= sizeof address.name)
    return failure_raisef(L, LP_INVALID_ARGUMENT, "socket path too long: %s", path);
  strcpy(address.name, path);
  if (listener_bind(&address, &fd, NULL, &fault) != LP_OK) return raise_fault(L, &fault);
  if (!rpc_listen(at->box, id, fd, path))
    return failure_raisef(L, LP_RESOURCE_EXHAUSTED, "no memory to listen on %s", path);
  return 0;
}

/* unlisten(path): the service's own listener there is closed */
static int host_unlisten(lua_State *L) {
  rpc_unlisten(rpc_of(L), luaL_checkstring(L, 1));
  return 0;
}

/* ---- child processes -------------------------------------------------------- */

static void source_ended(void *owner) {
  (void)owner;
}

static void on_child(void *owner, pid_t pid, int status, int number) {
  hosted_child *ended = owner;
  host *host = ended->host;
  printer_source_free(ended->sources[0]);
  printer_source_free(ended->sources[1]);
  child_free(ended->child);
  list_remove(&ended->link);
  mem_free(ended);
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

/* spawn(file, argv, envp, prefix, hue) -> pid. Its output is printed behind the prefix; when
 * ours goes to one file, its stdout and stderr share one pipe, so that their order is kept. */
static int host_spawn(lua_State *L) {
  host *host = host_of(L);
  fault fault;
  const char *prefix = luaL_checkstring(L, 4);
  int hue = (int)luaL_checkinteger(L, 5);
  spawn_request request = {
      .file = luaL_checkstring(L, 1), .argv = string_array(L, 2), .envp = string_array(L, 3)};
  int out[2] = {-1, -1}, err[2] = {-1, -1};
  bool merged = printer_merged(host->printer);
  hosted_child *made = mem_new(sizeof *made);
  if (!made || pipe2(out, O_CLOEXEC) != 0 || (!merged && pipe2(err, O_CLOEXEC) != 0)) {
    close_pair(out);
    mem_free(made);
    return failure_raisef(L, LP_RESOURCE_EXHAUSTED, "cannot start a process: %s", strerror(errno));
  }
  request.stdout_fd = out[1];
  request.stderr_fd = merged ? out[1] : err[1];
  pid_t pid;
  lp_status status = spawn_process(&request, &pid, &fault);
  close(out[1]);
  if (!merged) close(err[1]);
  out[1] = err[1] = -1;
  if (status == LP_OK) {
    made->host = host;
    list_init(&made->link);
    made->child = child_watch(host->engine.service->poller, pid, on_child, made, &fault);
    if (!made->child) kill_unwatched(pid);
  }
  if (status != LP_OK || !made->child) {
    close_pair(out);
    close_pair(err);
    mem_free(made);
    return raise_fault(L, &fault);
  }
  list_push(&host->children, &made->link);
  made->sources[0] = printer_source_new(host->printer, out[0], 1, prefix, hue, source_ended, made);
  if (!merged)
    made->sources[1] =
        printer_source_new(host->printer, err[0], 2, prefix, hue, source_ended, made);
  if (!made->sources[0] || (!merged && !made->sources[1])) {
    child_signal(made->child, SIGKILL, 1); /* on_child frees */
    return failure_raise(L, LP_RESOURCE_EXHAUSTED, "cannot start a process: no memory for output");
  }
  lua_pushinteger(L, pid);
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

static void on_signals(void *owner, unsigned events) {
  (void)events;
  host *host = owner;
  unsigned char number;
  while (read(host->options.signal_fd, &number, 1) == 1)
    host_tell(host, (told){.kind = "signal", .first = number});
}

/* ---- the run folder --------------------------------------------------------- */

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
    return raise_fault(L, &fault);
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

/* rundir_write(id, name, text): a file in the folder, whole or not at all */
static int host_rundir_write(lua_State *L) {
  hosted_dir *held = find_dir(host_of(L), luaL_checkstring(L, 1));
  size_t length;
  fault fault;
  const char *name = luaL_checkstring(L, 2), *text = luaL_checklstring(L, 3, &length);
  if (held && rundir_write(&held->dir, name, text, length, &fault) != LP_OK)
    return raise_fault(L, &fault);
  return 0;
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

/* events(handler): handler(kind, first, second, name, text) is called for what happens */
static int host_events(lua_State *L) {
  host *host = host_of(L);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  luaL_unref(L, LUA_REGISTRYINDEX, host->events);
  host->events = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

/* forget(run): drops what is remembered about its nodes */
static int host_forget(lua_State *L) {
  char prefix[80];
  snprintf(prefix, sizeof prefix, "%s/", luaL_checkstring(L, 1));
  engine_forget(&host_of(L)->engine, prefix);
  return 0;
}

/* free_port() -> "localhost:N": a TCP port nobody listens on at this moment */
static int host_free_port(lua_State *L) {
  address wanted = {.kind = ADDRESS_TCP, .name = "127.0.0.1"}, bound;
  fault fault;
  int fd;
  if (listener_bind(&wanted, &fd, &bound, &fault) != LP_OK) return raise_fault(L, &fault);
  close(fd);
  lua_pushfstring(L, "localhost:%d", (int)bound.port);
  return 1;
}

/* spin(microseconds): how long the loops made from now on look for work before they sleep */
static int host_spin(lua_State *L) {
  lua_Integer wanted = luaL_checkinteger(L, 1);
  luaL_argcheck(L, wanted >= 0 && wanted <= 1000000, 1, "0 to a million microseconds");
  host_of(L)->engine.spin_ns = wanted * 1000;
  return 0;
}

static int host_pid(lua_State *L) {
  lua_pushinteger(L, getpid());
  return 1;
}

/* command() -> the path of this program */
static int host_command(lua_State *L) {
  char path[4096];
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

static int open_host(lua_State *L) {
  lua_CFunction more = host_of(L)->options.open;
  if (more) more(L);
  static const luaL_Reg functions[] = {
      {"start", host_start},
      {"stop", host_stop},
      {"cancel", host_cancel},
      {"kill", host_kill},
      {"listen", host_listen},
      {"unlisten", host_unlisten},
      {"spawn", host_spawn},
      {"signal", host_signal},
      {"kill_group", host_kill_group},
      {"print", host_print},
      {"rundir", host_rundir},
      {"rundir_write", host_rundir_write},
      {"rundir_remove", host_rundir_remove},
      {"rundir_sweep", host_rundir_sweep},
      {"sweep", host_sweep},
      {"events", host_events},
      {"forget", host_forget},
      {"free_port", host_free_port},
      {"spin", host_spin},
      {"pid", host_pid},
      {"command", host_command},
      {"environment", host_environment},
      {NULL, NULL},
  };
  luaL_newlib(L, functions);
  lua_setfield(L, -2, "host");
  return 0;
}

/* ---- life ------------------------------------------------------------------- */

static void host_dispose(host *host) {
  printer_free(host->printer, 1000);
  loop_free(host->engine.service);
  engine_fini(&host->engine);
  mem_free(host);
}

/* That a reader went away is its own affair; a full disk or want of memory is to be known. */
static void say_lost(host *host, int stream) {
  int cause;
  char words[FAULT_TEXT];
  size_t lost = printer_lost(host->printer, stream, &cause);
  if (lost == 0 || cause == EPIPE || cause == ECONNRESET) return;
  int length = snprintf(words, sizeof words, "lp: %zu bytes of output were lost: %s\n", lost,
                        strerror(cause));
  ssize_t written = write(STDERR_FILENO, words, (size_t)length);
  (void)written;
}

/* The parts of a host that need memory; what there is is freed by host_dispose. */
static bool host_equip(host *host, fault *fault) {
  loop *service = host->engine.service = loop_new(&host->engine, "service", fault);
  if (!service) return false;
  bool colour = host->options.colour;
  host->printer = printer_new(service->poller, STDOUT_FILENO, STDERR_FILENO, colour, PRINT_LIMIT);
  if (!host->printer) {
    fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for output");
    return false;
  }
  printer_on_room(host->printer, on_room, host);
  node_request request = {
      .name = "service", .key = "service", .boot = host->options.service, .open = open_host};
  node *node = core_node(service, &request, fault);
  if (!node) return false;
  host->service = node->id;
  if (host->options.signal_fd >= 0)
    host->signals =
        poller_watch_new(service->poller, host->options.signal_fd, POLLER_READ, on_signals, host);
  return true;
}

host *host_new(const host_options *options, fault *fault) {
  host *made = mem_new(sizeof *made);
  if (!made || !engine_init(&made->engine)) {
    mem_free(made);
    fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for an engine");
    return NULL;
  }
  made->options = *options;
  made->engine.spin_ns = SPIN_NS;
  made->engine.owner = made;
  made->engine.on_event = on_event;
  made->events = LUA_NOREF;
  list_init(&made->loops);
  list_init(&made->nodes);
  list_init(&made->children);
  list_init(&made->rundirs);
  timer_init(&made->tick, on_tick);
  made->slice_ns = SLICE_NS;
  if (host_equip(made, fault)) return made;
  host_dispose(made);
  return NULL;
}

bool host_adopt(host *host, loop *loop, uint64_t id) {
  hosted_loop *at = mem_new(sizeof *at);
  hosted_node *hosted = mem_new(sizeof *hosted);
  if (!at || !hosted) {
    mem_free(at);
    mem_free(hosted);
    return false;
  }
  *at = (hosted_loop){.loop = loop, .foreign = true};
  *hosted = (hosted_node){.id = id, .at = at};
  list_push(&host->loops, &at->link);
  list_push(&host->nodes, &hosted->link);
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
    if (!hosted->at->foreign) continue;
    list_remove(&hosted->link);
    loop_drop(host, hosted->at);
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

engine *host_engine(host *host) {
  return &host->engine;
}

loop *host_service_loop(host *host) {
  return host->engine.service;
}

/* Kills the children and removes the run folders. */
static void host_clear(host *host) {
  while (!list_empty(&host->children)) {
    hosted_child *one = list_entry(host->children.next, hosted_child, link);
    child_signal(one->child, SIGKILL, 1);
    printer_source_free(one->sources[0]);
    printer_source_free(one->sources[1]);
    child_free(one->child);
    list_remove(&one->link);
    mem_free(one);
  }
  while (!list_empty(&host->rundirs)) dir_remove(list_entry(host->rundirs.next, hosted_dir, link));
}

/* Ends the service on its own thread: its node, its children's watches, its run folder. */
typedef struct farewell {
  message message;
  host *host;
} farewell;

static void farewell_run(message *carried, void *at) {
  host *host = ((farewell *)carried)->host;
  loop *service = at;
  node *ending = host_service(host);
  if (ending && ending->end_text) say_failed(host, ending->end_text);
  if (ending && !list_empty(&ending->ready) && !mailbox_closed(service->box)) {
    mailbox_push(service->box, MAILBOX_MAIL, carried); /* what it was told comes first */
    return;
  }
  host->closing = true;
  say_lost(host, 1);
  if (!printer_merged(host->printer)) say_lost(host, 2);
  poller_watch_free(host->signals);
  host->signals = NULL;
  timer_stop(&service->timers, &host->tick);
  host_clear(host);
  if (ending) {
    node_set_end(ending, LP_OK, "the engine was closed");
    ending->killed = true;
    node_ready(ending);
  }
  service->quit = true;
}

static void farewell_drop(message *carried) {
  (void)carried;
}

bool host_free(host *host) {
  if (!host) return true;
  if (atomic_load(&host->live_nodes) > 0) return false;
  loop *service = host->engine.service;
  farewell last = {{.run = farewell_run, .drop = farewell_drop}, host};
  mailbox_push(service->box, MAILBOX_MAIL, &last.message);
  if (service->threaded) {
    pthread_join(service->thread, NULL);
    service->threaded = false;
  } else {
    while (!service->quit || !list_empty(&service->nodes)) loop_turn(service, 0);
  }
  host_dispose(host);
  return true;
}
