/* See host.h. Everything here runs on the service thread, except for making and freeing. */
#include "api/host.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/host_parts.h"
#include "base/clock.h"
#include "base/memory.h"
#include "rpc/peer_silence.h"
#include "rpc/rpc.h"
#include "runtime/lines.h"

enum {
  PRINT_LIMIT = 1 << 20, /* bytes of output that wait for a slow reader */
  HUES = 6,
  SPIN_NS = 20000
};

/* ---- telling the policy ----------------------------------------------------- */

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

void host_say(host *host, const char *text, size_t length) {
  if (printer_lines(host->printer, 2, "", -1, text, length) || host->options.output) return;
  ssize_t written = write(STDERR_FILENO, text, length);
  (void)written;
}

/* Said once. */
static void say_failed(host *host, const char *why) {
  char words[FAULT_TEXT];
  int length = snprintf(words, sizeof words, "lp: the engine's service ended: %s\n", why);
  if (!host->said_failed)
    host_say(host, words, (size_t)length < sizeof words ? (size_t)length : sizeof words - 1);
  host->said_failed = true;
}

/* What the policy cannot be told it would wait for without end: then it has failed. */
void host_tell(host *host, told told) {
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

/* What is printed with a prefix, "[name] ", by the policy or by a process. */
static void to_output(void *owner, int stream, const char *prefix, const char *text,
                      size_t length) {
  const host *host = owner;
  char name[128];
  snprintf(name, sizeof name, "%s", prefix + (*prefix == '['));
  name[strcspn(name, "]")] = 0;
  while (length > 0 && text[length - 1] == '\n') length--;
  host->options.output(host->options.owner, stream == 2 ? LP_OUTPUT_ERROR : LP_OUTPUT_STDOUT, name,
                       text, length, 0);
}

/* The same for what a node of this process printed or logged. */
static void event_to_output(host *host, const event *event) {
  bool log = event->kind == EVENT_LOG;
  const char *slash = strchr(event->name, '/');
  size_t length = event->length;
  if (length > 0 && event->text[length - 1] == '\n') length--;
  int kind = log                  ? LP_OUTPUT_DEBUG + (event->status & 3)
             : event->status == 2 ? LP_OUTPUT_STDERR
                                  : LP_OUTPUT_STDOUT;
  host->options.output(host->options.owner, kind, slash ? slash + 1 : event->name, event->text,
                       length, event->length + (log ? LINES_LOG_BYTES : 0));
}

static void on_room(void *owner) {
  host *host = owner;
  atomic_fetch_sub(&host->engine.output_queued, host->held_back);
  host->held_back = 0;
}

/* `bytes` of what nodes had queued were given to the printer. */
static void printed(host *host, size_t bytes) {
  if (printer_full(host->printer)) {
    host->held_back += bytes;
  } else {
    atomic_fetch_sub(&host->engine.output_queued, bytes);
  }
}

static void print_event(host *host, const event *event) {
  char prefix[128];
  prefix_of(host, event->name, prefix, sizeof prefix);
  const divert *aside = host_divert(host, event->name);
  if (aside) {
    printer_diverted(host->printer, aside, event->status, prefix, event->text, event->length);
  } else if (*prefix || host->options.bare) { /* nodes print lines; the main chunk what it likes */
    printer_lines(host->printer, event->status, prefix, (int)(event->id % HUES), event->text,
                  event->length);
  } else {
    printer_text(host->printer, event->status, event->text, event->length);
  }
  printed(host, event->length);
}

static void say_dropped(host *host) {
  char words[96];
  size_t dropped = atomic_exchange(&host->engine.logs_dropped, 0);
  if (!dropped) return;
  host->said_dropped = clock_now();
  int length =
      snprintf(words, sizeof words, "lp: warning: %zu lines of the log were dropped\n", dropped);
  host_say(host, words, (size_t)length);
}

/* Here and not by the policy, which a flood of lines would keep from everything else. */
static void print_log(host *host, const event *event) {
  static const char *const levels[] = {"debug: ", "", "warning: ", "error: "};
  char prefix[128];
  const char *level = levels[event->status & 3];
  size_t head = strlen(level), length = head + event->length;
  char *text = mem_alloc(length + 1);
  prefix_of(host, event->name, prefix, sizeof prefix);
  if (clock_now() - host->said_dropped > 1000000000) say_dropped(host);
  if (text) {
    memcpy(text, level, head);
    memcpy(text + head, event->text, event->length);
    const divert *aside = host_divert(host, event->name);
    if (aside)
      printer_diverted(host->printer, aside, 2, prefix, text, length);
    else
      printer_lines(host->printer, 2, prefix, (int)(event->id % HUES), text, length);
    mem_free(text);
  } else {
    atomic_fetch_add(&host->engine.logs_dropped, 1);
  }
  printed(host, event->length + LINES_LOG_BYTES);
}

/* Kills the children and removes the run folders. */
static void host_clear(host *host) {
  host_children_clear(host);
  host_routes_clear(host);
  host_rundirs_clear(host);
}

/* The policy has ended without being asked to, most likely for want of memory: nobody is left
 * to end things in order. What is in this process goes with it. */
static void service_failed(host *host, const event *event) {
  say_failed(host, event->text);
  host_clear(host);
}

static void on_event(engine *engine, const event *event) {
  host *host = engine->owner;
  switch (event->kind) {
    case EVENT_OUTPUT:
    case EVENT_LOG:
      if (host->options.output)
        event_to_output(host, event);
      else if (event->kind == EVENT_LOG)
        print_log(host, event);
      else
        print_event(host, event);
      break;
    case EVENT_NODE_ENDED:
      if (event->id == host->service && (event->status != LP_OK || !host->closing))
        service_failed(host, event);
      host_node_ended(host, event->id);
      host_tell(host, (told){.kind = "node",
                             .first = (lua_Integer)event->id,
                             .second = event->status,
                             .name = event->name,
                             .text = event->text,
                             .length = event->length});
      break;
    case EVENT_ANSWER:
      host_tell(host, (told){.kind = "answer",
                             .first = (lua_Integer)event->id,
                             .second = event->status,
                             .text = event->text,
                             .length = event->length});
      break;
    case EVENT_SIGNAL: break;
  }
}

/* print(stream, prefix, hue, text, key or nil): in the file of the node `key`, too */
static int host_print(lua_State *L) {
  host *host = host_of(L);
  size_t length;
  int stream = luaL_checkinteger(L, 1) == 2 ? 2 : 1;
  const char *text = luaL_checklstring(L, 4, &length);
  printer_lines(host->printer, stream, luaL_checkstring(L, 2), (int)luaL_checkinteger(L, 3), text,
                length);
  const divert *aside = lua_isnoneornil(L, 5) ? NULL : host_divert(host, luaL_checkstring(L, 5));
  if (aside) aside->fn(aside->owner, text, length);
  return 0;
}

/* ---- functions of lp.core.host ---------------------------------------------- */

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

/* returns(key, whether): see engine_returns */
static int host_returns(lua_State *L) {
  engine_returns(&host_of(L)->engine, luaL_checkstring(L, 1), lua_toboolean(L, 2));
  return 0;
}

/* silence(key, why or nil): a node of another process does not answer at present, or does again */
static int host_silence(lua_State *L) {
  if (peer_silence(&host_of(L)->engine, luaL_checkstring(L, 1), luaL_optstring(L, 2, NULL)))
    return 0;
  return failure_raise(L, LP_RESOURCE_EXHAUSTED, "out of memory");
}

/* spin(microseconds): how long the loops made from now on look for work before they sleep */
static int host_spin(lua_State *L) {
  lua_Integer wanted = luaL_checkinteger(L, 1);
  luaL_argcheck(L, wanted >= 0 && wanted <= 1000000, 1, "0 to a million microseconds");
  host_of(L)->engine.spin_ns = wanted * 1000;
  return 0;
}

static const luaL_Reg host_functions[] = {
    {"print", host_print},
    {"events", host_events},
    {"forget", host_forget},
    {"returns", host_returns},
    {"silence", host_silence},
    {"spin", host_spin},
    {NULL, NULL},
};

static int open_host(lua_State *L) {
  lua_CFunction more = host_of(L)->options.open;
  if (more) more(L);
  lua_newtable(L);
  luaL_setfuncs(L, host_functions, 0);
  luaL_setfuncs(L, host_journal_functions, 0);
  luaL_setfuncs(L, host_node_functions, 0);
  luaL_setfuncs(L, host_child_functions, 0);
  luaL_setfuncs(L, host_rundir_functions, 0);
  luaL_setfuncs(L, host_inspect_functions, 0);
  luaL_setfuncs(L, host_route_functions, 0);
  lua_setfield(L, -2, "host");
  return 0;
}

/* ---- life ------------------------------------------------------------------- */

static void host_dispose(host *host) {
  printer_free(host->printer, 1000);
  loop_free(host->engine.service);
  engine_fini(&host->engine);
  hash_fini(&host->nodes_by_id);
  mem_free(host);
}

/* That a reader went away is its own affair; a full disk or want of memory is to be known. */
static void say_lost(host *host, int stream) {
  int cause;
  char words[FAULT_TEXT];
  size_t lost = printer_lost(host->printer, stream, &cause);
  if (lost == 0 || host->options.output || cause == EPIPE || cause == ECONNRESET) return;
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
  bool prints = !host->options.output;
  host->printer = printer_new(service->poller, prints ? STDOUT_FILENO : -1,
                              prints ? STDERR_FILENO : -1, colour, PRINT_LIMIT);
  if (!host->printer) {
    fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for output");
    return false;
  }
  printer_on_room(host->printer, on_room, host);
  if (!prints) printer_sink(host->printer, to_output, host);
  node_request request = {
      .name = "service", .key = "service", .boot = host->options.service, .open = open_host};
  node *node = core_node(service, &request, fault);
  if (!node) return false;
  host->service = node->id;
  host_signals_watch(host);
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
  made->engine.on_child = options->on_child;
  made->engine.hooked = options->hooked;
  made->engine.native = options->native;
  made->engine.native_owner = options->owner;
  made->engine.allocate = options->allocate;
  made->engine.allocate_user = options->allocate_user;
  made->events = LUA_NOREF;
  list_init(&made->loops);
  list_init(&made->nodes);
  list_init(&made->rundirs);
  list_init(&made->routes);
  host_loops_init(made);
  host_watch_init(made);
  host_children_init(made);
  if (host_equip(made, fault)) return made;
  host_dispose(made);
  return NULL;
}

engine *host_engine(host *host) {
  return &host->engine;
}

loop *host_service_loop(host *host) {
  return host->engine.service;
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
  say_dropped(host);
  say_lost(host, 1);
  if (!printer_merged(host->printer)) say_lost(host, 2);
  poller_watch_free(host->signals);
  host->signals = NULL;
  timer_stop(&service->timers, &host->tick);
  timer_stop(&service->timers, &host->watch);
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

void host_abandon(host *host) {
  atomic_store(&host->live_nodes, 0);
  host_free(host);
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
