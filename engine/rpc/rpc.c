/* A node's rpc part: set-up, tear-down, spawned tasks, listeners, and how a node fails. */
#include "rpc/rpc.h"

#include <lauxlib.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "net/listener.h"
#include "rpc/busy.h"
#include "rpc/client.h"
#include "rpc/future.h"
#include "rpc/hello.h"
#include "rpc/methods.h"
#include "rpc/overview.h"
#include "rpc/pending.h"
#include "rpc/reply.h"
#include "rpc/server.h"
#include "runtime/engine.h"
#include "runtime/failure.h"
#include "runtime/lines.h"
#include "wire/strings.h"

/* ---- failing ---------------------------------------------------------------- */

/* The string field `key` of the table at `index`, or NULL; stays on the stack. */
static const char *field(lua_State *L, int index, const char *key) {
  if (lua_type(L, index) != LUA_TTABLE) return NULL;
  lua_pushstring(L, key);
  return lua_rawget(L, index) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
}

void node_fail(lua_State *L) {
  node *node = node_of(L);
  int error = lua_gettop(L);
  luaL_checkstack(L, 8, NULL);
  const char *message = field(L, error, "message");
  if (!message) message = lua_type(L, error) == LUA_TSTRING ? lua_tostring(L, error) : "an error";
  const char *trace = field(L, error, "traceback");
  const char *origin = field(L, error, "node");
  char short_text[FAULT_TEXT];
  snprintf(short_text, sizeof short_text, "it failed: %s", message);
  if (!node->end_text) {
    node->end_trace = mem_format("%s%s%s%s%s", message, origin ? "\n(raised in node " : "",
                                 origin ? origin : "", origin ? ")" : "", "");
    if (node->end_trace && trace) {
      char *whole = mem_format("%s\n%s", node->end_trace, trace);
      if (whole) {
        mem_free(node->end_trace);
        node->end_trace = whole;
      }
    }
    node_set_end(node, LP_ABORTED, short_text);
  }
  node->killed = true;
  node_ready(node);
  lua_settop(L, error - 1);
}

void rpc_log(lua_State *L, const char *format, ...) {
  char text[FAULT_TEXT * 2];
  va_list args;
  va_start(args, format);
  int length = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  size_t bytes = length < 0 ? 0 : (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
  lines_log(node_of(L), 2, text, bytes);
}

void rpc_met(lua_State *L, bound bound, const char *text) {
  if (rpc_of(L)->met[bound]++ == 0) rpc_log(L, "%s (further cases are counted, not logged)", text);
}

/* ---- spawned tasks ---------------------------------------------------------- */

static int reference_of(const task *task) {
  return (int)(intptr_t)task->context;
}

static void spawn_done(lua_State *L, task *task, bool ok, int first) {
  int reference = reference_of(task);
  int count = lua_gettop(L) - first + 1;
  luaL_checkstack(L, 4, NULL);
  if (reference != LUA_NOREF) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, reference);
    lua_insert(L, first);
    future_settle(L, first, ok, count);
    task->context = (void *)(intptr_t)LUA_NOREF; /* now: until here it may raise */
    luaL_unref(L, LUA_REGISTRYINDEX, reference);
    if (task->cancelled != LP_OK) future_excuse(L, first);
    if (future_unread_failure(L, first)) rpc_of(L)->look_for_lost = true;
  } else if (!ok && task->cancelled == LP_OK) {
    lua_settop(L, first);
    node_fail(L);
  }
}

/* A task whose end nobody waits for fails its node, also when memory was out for saying so. */
static void lost_alone(task *task, lp_status status, const char *text) {
  node *node = task->node;
  if (node->closing || task->cancelled != LP_OK) return;
  node_set_end(node, status, text);
  node->killed = true;
  node_ready(node);
}

static void spawn_lost(task *task, lp_status status, const char *text) {
  lua_State *L = task->node->L;
  int reference = reference_of(task);
  if (reference == LUA_NOREF) {
    lost_alone(task, status, text);
    return;
  }
  lua_rawgeti(L, LUA_REGISTRYINDEX, reference); /* neither this nor unref allocates */
  future_abandon(task->node, lua_touserdata(L, -1), LP_CANCELLED, "the task was closed");
  lua_pop(L, 1);
  luaL_unref(L, LUA_REGISTRYINDEX, reference);
}

static const task_kind spawn_kind = {.name = "spawned", .done = spawn_done, .lost = spawn_lost};

static task *spawn(lua_State *L, int nargs, int reference) {
  task *made = task_new(L, &spawn_kind, (void *)(intptr_t)reference);
  if (!lua_checkstack(made->co, nargs + 1)) {
    task_discard(made);
    failure_raise(L, LP_RESOURCE_EXHAUSTED, "no memory for a task");
  }
  lua_xmove(L, made->co, nargs + 1);
  task_start(made, nargs);
  return made;
}

void rpc_spawn(lua_State *L, int nargs) {
  spawn(L, nargs, LUA_NOREF);
}

void rpc_spawn_future(lua_State *L, int nargs) {
  future *made = future_push(L);
  int reference = luaL_ref(L, LUA_REGISTRYINDEX);
  future_attach_task(made, spawn(L, nargs, reference));
  lua_rawgeti(L, LUA_REGISTRYINDEX, reference);
}

/* ---- listening -------------------------------------------------------------- */

typedef struct listening {
  list link;
  rpc *rpc;
  listener *listener;
  timer resume;
  char path[];
} listening;

enum { PAUSE_NS = 100000000 };

static void accept_one(void *owner, int fd) {
  listening *self = owner;
  if (fd >= 0)
    peer_accept_fd(self->rpc, fd);
  else
    timer_start(&self->rpc->node->loop->timers, &self->resume, clock_now() + PAUSE_NS);
}

static void resume_accepting(timer *timer) {
  listener_resume(list_entry(timer, listening, resume)->listener);
}

static void listening_free(listening *self) {
  timer_stop(&self->rpc->node->loop->timers, &self->resume);
  list_remove(&self->link);
  listener_free(self->listener);
  mem_free(self);
}

static void listening_new(rpc *rpc, int fd, const char *path) {
  size_t bytes = strlen(path) + 1;
  listening *made = mem_new(sizeof *made + bytes);
  if (!made) {
    close(fd);
    return;
  }
  memcpy(made->path, path, bytes);
  made->rpc = rpc;
  list_init(&made->link);
  timer_init(&made->resume, resume_accepting);
  made->listener = listener_new(rpc->node->loop->poller, fd, accept_one, made);
  list_push(&rpc->listeners, &made->link);
  if (!made->listener) listening_free(made);
}

void rpc_unlisten(rpc *rpc, const char *path) {
  for (list *each = rpc->listeners.next; each != &rpc->listeners; each = each->next) {
    listening *one = list_entry(each, listening, link);
    if (strcmp(one->path, path) != 0) continue;
    listening_free(one);
    return;
  }
}

typedef struct listen_message {
  message message;
  uint64_t node;
  int fd;
  char path[];
} listen_message;

static void listen_drop(message *carried) {
  listen_message *dropped = (listen_message *)carried;
  if (dropped->fd >= 0) close(dropped->fd);
  mem_free(dropped);
}

static void listen_run(message *carried, void *at) {
  listen_message *asked = (listen_message *)carried;
  node *node = loop_find_node(at, asked->node);
  if (node && node->upper) {
    listening_new(node->upper, asked->fd, asked->path);
    asked->fd = -1;
  }
  listen_drop(carried);
}

bool rpc_listen(mailbox *box, uint64_t id, int fd, const char *path) {
  size_t bytes = strlen(path) + 1;
  listen_message *asked = mem_new(sizeof *asked + bytes);
  if (!asked) {
    close(fd);
    return false;
  }
  *asked = (listen_message){{.run = listen_run, .drop = listen_drop}, id, fd};
  memcpy(asked->path, path, bytes);
  if (mailbox_push(box, MAILBOX_MAIL, &asked->message)) return true;
  listen_drop(&asked->message);
  return false;
}

/* ---- life ------------------------------------------------------------------- */

static int open_all(lua_State *L) {
  methods_note_standard(L, rpc_of(L));
  client_open(L);
  future_open(L);
  reply_open(L);
  return 0;
}

bool rpc_open(node *node, terms terms, fault *fault) {
  rpc *made = mem_new(sizeof *made);
  if (!made) {
    fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for node %s", node->name);
    return false;
  }
  made->node = node;
  made->terms = terms;
  made->born = clock_now();
  made->terms.calls = peer_window(terms.calls);
  made->max_held_bytes = TERMS_PENDING_BYTES;
  made->max_answer_bytes = TERMS_ANSWER_BYTES;
  made->codec.limits = codec_default_limits;
  made->codec.hooks = client_codec_hooks;
  made->codec.strings = mem_new(sizeof *made->codec.strings); /* without, it is slower */
  made->instance = made->expose = made->constructor = LUA_NOREF;
  made->on_stop = made->connector = LUA_NOREF;
  made->bound = made->priority = LUA_NOREF;
  list_init(&made->deferred);
  made->held_end = &made->held;
  list_init(&made->peers);
  list_init(&made->listeners);
  node->upper = made;
  return node_enter(node, open_all, NULL, fault);
}

static int run_on_stop(lua_State *L) {
  rpc *rpc = lua_touserdata(L, 1);
  lua_rawgeti(L, LUA_REGISTRYINDEX, rpc->on_stop);
  rpc_spawn(L, 0);
  return 0;
}

static void rpc_on_stop(node *node) {
  rpc *rpc = node->upper;
  if (!rpc) return;
  rpc->stop_asked = true;
  if (rpc->on_stop != LUA_NOREF) node_enter(node, run_on_stop, rpc, NULL);
}

static int collect(lua_State *L) {
  lua_gc(L, LUA_GCCOLLECT);
  return 0;
}

/* A future that holds an error nobody has looked at fails the node when it is collected
 * (future_gc). Who is idle for long would not see that for long, so it is collected now. So
 * is what a node has left behind that met its memory limit: Lua would wait for twice that
 * much, and library functions that build strings do not collect before they give up. And
 * what it took to start, which is as much as most nodes ever have. */
static void rpc_on_idle(node *node) {
  rpc *rpc = node->upper;
  if (!rpc || (!rpc->look_for_lost && !node->starved && !rpc->settling)) return;
  rpc->look_for_lost = node->starved = rpc->settling = false;
  node_enter(node, collect, NULL, NULL);
}

static int attend(lua_State *L) {
  server_continue(L, lua_touserdata(L, 1));
  return 0;
}

static void rpc_on_attend(node *node) {
  if (node->upper) node_enter(node, attend, node->upper, NULL);
}

/* Says farewell on every link and closes it; what was to be answered is answered first. */
static void rpc_on_close(node *node) {
  rpc *rpc = node->upper;
  if (!rpc) return;
  const char *how = node->end_text ? node->end_text : "it ended";
  server_forget(rpc);
  while (!list_empty(&rpc->listeners))
    listening_free(list_entry(rpc->listeners.next, listening, link));
  for (list *each = rpc->peers.next, *next; each != &rpc->peers; each = next) {
    peer *peer = list_entry(each, struct peer, link);
    peer_ref(peer);
    hello_bye(peer, how);
    if (link_is_open(&peer->wire)) link_flush(&peer->wire);
    peer_down(peer, LP_UNAVAILABLE, "this node has ended");
    next = each->next;
    peer_unref(peer);
  }
}

/* The node's finalizers made it when the state was being closed, and perhaps calls too, which still
 * have timers. */
static void free_left(peer *peer) {
  peer_ref(peer);
  for (uint32_t i = 0; i < peer->slot_count; i++)
    if (peer->slots[i]) pending_free(peer->slots[i]);
  peer->references = 1;
  peer_unref(peer);
}

static void rpc_on_free(node *node) {
  rpc *rpc = node->upper;
  if (!rpc) return;
  while (!list_empty(&rpc->peers)) free_left(list_entry(rpc->peers.next, peer, link));
  for (pending *each = rpc->free_pending, *next; each; each = next) {
    next = each->next;
    mem_free(each);
  }
  for (call *each = rpc->free_calls, *next; each; each = next) {
    next = each->next;
    mem_free(each);
  }
  hash_fini(&rpc->by_target);
  mem_free(rpc->codec.strings);
  meters_fini(&rpc->made);
  meters_fini(&rpc->served);
  mem_free(rpc->circle);
  mem_free(rpc);
  node->upper = NULL;
}

const node_hooks rpc_hooks = {.on_stop = rpc_on_stop,
                              .on_idle = rpc_on_idle,
                              .on_attend = rpc_on_attend,
                              .on_close = rpc_on_close,
                              .on_free = rpc_on_free,
                              .on_inspect = overview_write,
                              .on_busy = busy_tell};
