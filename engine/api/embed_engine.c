/* Opening and closing engines for an embedding program; errors, options, threads. See lp.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/embed.h"
#include "api/embed_run.h"
#include "base/memory.h"
#include "runtime/interrupt.h"

/* ---- words ------------------------------------------------------------------ */

/* Of the thread, as errno is: there may be no engine to keep them, or it may not be this
 * thread's. */
static _Thread_local char last_message[FAULT_TEXT];

const char *lp_message(void) {
  return last_message;
}

const char *lp_version(void) {
  return LP_VERSION;
}

lp_status embed_fail(lp_status status, const char *format, ...) {
  char text[FAULT_TEXT]; /* what is printed may be the last message itself */
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  memcpy(last_message, text, sizeof text);
  return status;
}

lp_status embed_fault(const fault *fault) {
  return embed_fail(fault->status, "%s", fault->text);
}

lp_status embed_check(const lp_engine *engine, const char *what) {
  if (!engine) return embed_fail(LP_INVALID_ARGUMENT, "%s: the engine is NULL", what);
  if (!pthread_equal(engine->thread, pthread_self()))
    return embed_fail(LP_FAILED_PRECONDITION,
                      "%s: the engine belongs to another thread (lp_post runs a function there, "
                      "lp_engine_adopt takes it over)",
                      what);
  if (engine->closed) return embed_fail(LP_FAILED_PRECONDITION, "%s: the engine is closed", what);
  return LP_OK;
}

lp_status embed_check_wait(const lp_engine *engine, const char *what) {
  lp_status status = embed_check(engine, what);
  if (status == LP_OK && engine->depth > 0)
    return embed_fail(LP_FAILED_PRECONDITION,
                      "%s: it waits, and cannot be called within lp_poll (from a callback)", what);
  return status;
}

/* ---- references ------------------------------------------------------------- */

lp_engine *embed_ref(lp_engine *engine) {
  atomic_fetch_add(&engine->references, 1);
  return engine;
}

void embed_unref(lp_engine *engine) {
  if (!engine || atomic_fetch_sub(&engine->references, 1) != 1) return;
  mailbox_unref(engine->box);
  mem_free(engine->command);
  mem_free(engine);
}

rpc *embed_rpc(lp_engine *engine) {
  node *caller = engine->loop ? loop_find_node(engine->loop, engine->caller) : NULL;
  return caller ? caller->upper : NULL;
}

/* ---- output ----------------------------------------------------------------- */

/* A line on its way from the service thread to the host's. */
typedef struct printed {
  message message;
  lp_engine *engine; /* alive while its loop is */
  engine *counter;
  size_t bytes, length;
  int kind;
  const char *node; /* both behind the structure */
  const char *text;
} printed;

static void printed_drop(message *carried) {
  printed *line = (printed *)carried;
  if (line->bytes) atomic_fetch_sub(&line->counter->output_queued, line->bytes);
  mem_free(line);
}

static void printed_run(message *carried, void *at) {
  ((loop *)at)->awake = true;
  printed *line = (printed *)carried;
  const lp_engine_options *options = &line->engine->options;
  if (options->output)
    options->output(options->output_user, (lp_output_kind)line->kind, line->node, line->text,
                    line->length);
  printed_drop(carried);
}

static void on_output(void *owner, int kind, const char *node, const char *text, size_t length,
                      size_t bytes) {
  lp_engine *engine = owner;
  struct engine *counter = host_engine(engine->host);
  size_t name = strlen(node) + 1;
  printed *line = engine->options.output ? mem_alloc(sizeof *line + name + length + 1) : NULL;
  if (!line) {
    if (bytes) atomic_fetch_sub(&counter->output_queued, bytes);
    return;
  }
  char *copy = (char *)(line + 1);
  *line = (printed){.message = {.run = printed_run, .drop = printed_drop},
                    .engine = engine,
                    .counter = counter,
                    .bytes = bytes,
                    .length = length,
                    .kind = kind,
                    .node = copy,
                    .text = copy + name};
  memcpy(copy, node, name);
  memcpy(copy + name, text, length);
  copy[name + length] = 0;
  if (!mailbox_push(engine->box, MAILBOX_MAIL, &line->message)) printed_drop(&line->message);
}

/* ---- opening ---------------------------------------------------------------- */

void lp_engine_options_init(lp_engine_options *options) {
  if (!options) return;
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
  options->notice = 1;
  options->spin_us = -1;
}

/* The options of a host that may be older or newer than the library. */
static lp_status take_options(lp_engine *engine, const lp_engine_options *given) {
  lp_engine_options_init(&engine->options);
  if (!given) return LP_OK;
  if (given->size == 0 || given->size > 4 * sizeof *given)
    return embed_fail(LP_INVALID_ARGUMENT,
                      "lp_engine_open: options.size is %zu; fill the options in with "
                      "lp_engine_options_init first",
                      given->size);
  size_t known = given->size < sizeof *given ? given->size : sizeof *given;
  memcpy(&engine->options, given, known);
  const lp_engine_options *taken = &engine->options;
  lp_status status =
      embed_check_seconds(taken->load_timeout, false, "lp_engine_open: options.load_timeout");
  if (status == LP_OK)
    status = embed_check_seconds(taken->notice, false, "lp_engine_open: options.notice");
  if (status != LP_OK) return status;
  if (given->threads < 0)
    return embed_fail(LP_INVALID_ARGUMENT, "lp_engine_open: options.threads is %d; 0 or more",
                      given->threads);
  return LP_OK;
}

/* `folder of path` + suffix, when such a file can be run; or NULL. */
static char *beside(const char *path, const char *suffix) {
  const char *slash = strrchr(path, '/');
  char *name = slash ? mem_format("%.*s%s", (int)(slash - path), path, suffix) : NULL;
  if (name && access(name, X_OK) == 0) return name;
  mem_free(name);
  return NULL;
}

/* The program of node processes. */
static char *find_command(const char *wanted) {
  static const char anchor;
  Dl_info here;
  if (!wanted) wanted = getenv("LP_COMMAND");
  if (wanted) return mem_strdup(wanted);
  char *found = NULL;
  if (dladdr(&anchor, &here) && here.dli_fname) {
    const char *const suffixes[] = {"/lp", "/../bin/lp", "/../../bin/lp"};
    for (size_t i = 0; !found && i < sizeof suffixes / sizeof *suffixes; i++)
      found = beside(here.dli_fname, suffixes[i]);
  }
  return found ? found : mem_strdup("lp");
}

/* C modules that nodes load look for Lua's functions among the global symbols, where those
 * of a library that was itself loaded by dlopen are not. */
static void show_lua(void) {
  void *lua = dlopen("liblua5.4.so.0", RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
  if (lua) dlclose(lua);
}

static bool make_node(lp_engine *engine, const char *name, const char *field, uint64_t *id,
                      fault *fault) {
  node_request request = {.name = name,
                          .key = name,
                          .memory_limit = engine->options.memory_limit,
                          .boot = {"lp.embed", field, "", 0}};
  node *made = core_node(engine->loop, &request, fault);
  if (made) *id = made->id;
  return made != NULL;
}

static bool open_parts(lp_engine *engine, fault *fault) {
  host_options options = {.service = {"lp.service", "boot", "", 0},
                          .command = engine->command,
                          .hooked = !engine->options.signals,
                          .output = on_output,
                          .owner = engine,
                          .native = embed_native,
                          .allocate = engine->options.allocate,
                          .allocate_user = engine->options.allocate_user,
                          .signal_fd = -1};
  if (!(engine->host = host_new(&options, fault))) return false;
  struct engine *inner = host_engine(engine->host);
  if (!(engine->loop = loop_new(inner, "host", fault))) return false;
  engine->loop->lazy = true;
  engine->box = mailbox_ref(engine->loop->box);
  return make_node(engine, "main", "boot", &engine->main, fault) &&
         make_node(engine, "host", "caller", &engine->caller, fault) &&
         (host_adopt(engine->host, engine->loop, engine->main) ||
          (fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for an engine"), false)) &&
         loop_start(host_service_loop(engine->host), fault) == LP_OK;
}

/* The nodes of the host's loop end; so do the calls they are in. */
static void close_nodes(lp_engine *engine) {
  list *nodes = &engine->loop->nodes;
  while (!list_empty(nodes))
    node_close(list_entry(nodes->next, node, link), LP_CANCELLED, "the engine was closed");
  engine->main = engine->caller = 0;
}

/* All but the stub; the host has no nodes left. */
static bool close_parts(lp_engine *engine) {
  if (engine->loop) {
    engine->depth++; /* callbacks that are called now cannot wait */
    embed_nodes_close(engine);
    close_nodes(engine);
    embed_tell_failed(engine);
    engine->depth--;
  }
  if (engine->host && engine->loop) host_forget_adopted(engine->host);
  if (engine->host && !host_free(engine->host)) return false;
  engine->host = NULL;
  embed_poll_fini(engine);
  loop_free(engine->loop);
  engine->loop = NULL;
  embed_host_fini(engine);
  engine->closed = true;
  return true;
}

/* Opening came to nothing; the service's thread does not run yet. */
static void open_failed(lp_engine *engine) {
  if (engine->host) {
    loop *loop = engine->loop;
    engine->loop = NULL;
    if (loop)
      while (!list_empty(&loop->nodes))
        node_close(list_entry(loop->nodes.next, node, link), LP_CANCELLED, "it could not start");
    host_abandon(engine->host);
    loop_free(loop);
  }
  embed_unref(engine);
}

lp_status lp_engine_open(const lp_engine_options *options, lp_engine **out) {
  fault fault = {LP_RESOURCE_EXHAUSTED, "lp_engine_open: out of memory"};
  if (!out) return embed_fail(LP_INVALID_ARGUMENT, "lp_engine_open: out is NULL");
  *out = NULL;
  lp_engine *made = mem_new(sizeof *made);
  if (!made) return embed_fault(&fault);
  atomic_init(&made->references, 1);
  made->thread = pthread_self();
  made->poll_fd = made->timer_fd = -1;
  list_init(&made->nodes);
  list_init(&made->runs);
  list_init(&made->failed);
  list_init(&made->implementations);
  lp_status status = take_options(made, options);
  if (status != LP_OK) {
    embed_unref(made);
    return status;
  }
  if (made->options.signals) interrupt_install();
  show_lua();
  made->command = find_command(made->options.command);
  if (!made->command || !open_parts(made, &fault)) {
    open_failed(made);
    return embed_fault(&fault);
  }
  *out = made;
  return LP_OK;
}

/* ---- closing ---------------------------------------------------------------- */

/* Has the service end all runs. Not LP_OK: some nodes could not be. */
static lp_status end_runs(lp_engine *engine) {
  lp_values *arguments = lp_values_new(), *stuck = lp_values_new();
  char names[FAULT_TEXT / 2] = "";
  lp_status status = embed_fail(LP_RESOURCE_EXHAUSTED, "lp_engine_close: out of memory");
  if (arguments && stuck && lp_push_number(arguments, engine->options.notice) == LP_OK)
    status = embed_ask(engine, "service", "close_all", arguments, 0, stuck);
  lp_reader results = lp_values_read(stuck), list;
  if (status == LP_OK && lp_read_array(&results, &list) == LP_OK) {
    char name[96];
    size_t length = 0;
    while (lp_read_string(&list, name, sizeof name) == LP_OK)
      length += (size_t)snprintf(names + length, length < sizeof names ? sizeof names - length : 0,
                                 "%s%s", length ? ", " : "", name);
  }
  lp_values_free(arguments);
  lp_values_free(stuck);
  if (status == LP_OK && *names)
    return embed_fail(LP_UNAVAILABLE,
                      "lp_engine_close: inside of a C function, and could not be stopped: node %s",
                      names);
  return status == LP_UNAVAILABLE ? LP_OK : status; /* the service is gone: so are its runs */
}

lp_status lp_engine_close(lp_engine *engine) {
  if (engine && engine->closed && pthread_equal(engine->thread, pthread_self())) return LP_OK;
  lp_status status = embed_check_wait(engine, "lp_engine_close");
  if (status == LP_OK) status = end_runs(engine);
  if (status != LP_OK) return status;
  embed_runs_close(engine);
  if (!close_parts(engine))
    return embed_fail(LP_UNAVAILABLE, "lp_engine_close: a node could not be stopped");
  return LP_OK;
}

lp_status lp_engine_free(lp_engine *engine) {
  if (!engine) return LP_OK;
  lp_status status = lp_engine_close(engine);
  if (status == LP_OK) embed_unref(engine);
  return status;
}

lp_status lp_engine_adopt(lp_engine *engine) {
  if (!engine) return embed_fail(LP_INVALID_ARGUMENT, "lp_engine_adopt: the engine is NULL");
  if (engine->depth > 0)
    return embed_fail(LP_FAILED_PRECONDITION, "lp_engine_adopt: the engine is at work");
  engine->thread = pthread_self();
  if (engine->loop) engine->loop->thread = pthread_self();
  return LP_OK;
}

/* ---- from other threads ----------------------------------------------------- */

typedef struct posted {
  message message;
  lp_engine *engine;
  void (*fn)(lp_engine *engine, void *user);
  void *user;
} posted;

static void posted_drop(message *carried) {
  posted *sent = (posted *)carried;
  embed_unref(sent->engine);
  mem_free(sent);
}

static void posted_run(message *carried, void *at) {
  ((loop *)at)->awake = true;
  posted *sent = (posted *)carried;
  sent->fn(sent->engine, sent->user);
  posted_drop(carried);
}

lp_status lp_post(lp_engine *engine, void (*fn)(lp_engine *engine, void *user), void *user) {
  if (!engine || !fn)
    return embed_fail(LP_INVALID_ARGUMENT, "lp_post: the %s is NULL", fn ? "engine" : "function");
  posted *made = mem_new(sizeof *made);
  if (!made) return embed_fail(LP_RESOURCE_EXHAUSTED, "lp_post: out of memory");
  *made = (posted){{.run = posted_run, .drop = posted_drop}, embed_ref(engine), fn, user};
  if (mailbox_push(engine->box, MAILBOX_MAIL, &made->message)) return LP_OK;
  posted_drop(&made->message);
  return embed_fail(LP_FAILED_PRECONDITION, "lp_post: the engine is closed");
}
