/* Programs and runs of an embedding program. The scripts run in the node "main" (lua/lp/embed.lua),
 * the runs belong to the service; both are asked over rpc as everybody asks them. */
#include "api/embed_run.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

struct lp_program {
  lp_engine *engine;
  int64_t number; /* in lua/lp/embed.lua */
};

struct lp_run {
  list link; /* engine->runs */
  lp_engine *engine;
  char *id;
  lp_values *names;    /* of its nodes, an array */
  bool ended, watched; /* watched: the service's word about the end is still to come */
  bool freed;          /* by the host, while that word is still to come */
  char *failure;       /* "node x failed: …", or NULL */
  void (*on_end)(void *user, lp_run *run, const char *failure);
  void *user;
};

/* ---- programs --------------------------------------------------------------- */

static lp_status out_of_memory(const char *what) {
  return embed_fail(LP_RESOURCE_EXHAUSTED, "%s: out of memory", what);
}

/* lp_message is about the Lua side; says in which call that was. */
static lp_status in_call(lp_status status, const char *what) {
  if (status == LP_OK) return LP_OK;
  return embed_fail(status, "%s: %s", what, lp_message());
}

/* [name, text, arguments] for embed:load */
static lp_status push_script(lp_values *to, const char *name, const char *text, size_t length,
                             int count, const char *const *arguments) {
  lp_status status = lp_push_string(to, name);
  if (status == LP_OK) status = lp_push_bytes(to, text, length);
  if (status == LP_OK) status = lp_push_array(to, (size_t)count);
  for (int i = 0; i < count && status == LP_OK; i++) status = lp_push_string(to, arguments[i]);
  return status;
}

static lp_status check_arguments(int count, const char *const *arguments, const char *what) {
  if (count < 0 || (count > 0 && !arguments))
    return embed_fail(LP_INVALID_ARGUMENT, "%s: %d arguments at %p", what, count,
                      (const void *)arguments);
  for (int i = 0; i < count; i++)
    if (!arguments[i])
      return embed_fail(LP_INVALID_ARGUMENT, "%s: argument %d is NULL", what, i + 1);
  return LP_OK;
}

/* Has the node main call `method` with the script; its result is the program's number. */
static lp_status load(lp_engine *engine, const char *method, const char *name, const char *text,
                      size_t length, int count, const char *const *arguments, const char *what,
                      lp_program **out) {
  lp_values *given = lp_values_new(), *results = lp_values_new();
  lp_program *made = mem_new(sizeof *made);
  lp_status status = given && results && made ? LP_OK : out_of_memory(what);
  if (status == LP_OK) status = push_script(given, name, text, length, count, arguments);
  if (status == LP_OK)
    status = embed_ask(engine, "main", method, given, engine->options.load_timeout, results);
  lp_reader reader = lp_values_read(results);
  if (status == LP_OK) status = lp_read_integer(&reader, &made->number);
  lp_values_free(given);
  lp_values_free(results);
  if (status == LP_DEADLINE_EXCEEDED && engine->options.load_timeout > 0)
    embed_fail(status, "%s: deadline exceeded: %s has not returned its program within %g s", what,
               name, engine->options.load_timeout);
  if (status != LP_OK) {
    mem_free(made);
    return status;
  }
  made->engine = embed_ref(engine);
  *out = made;
  return LP_OK;
}

lp_status lp_program_load_text(lp_engine *engine, const char *name, const char *text, size_t length,
                               int count, const char *const *arguments, lp_program **out) {
  static const char what[] = "lp_program_load_text";
  if (out) *out = NULL;
  lp_status status = embed_check_wait(engine, what);
  if (status == LP_OK) status = check_arguments(count, arguments, what);
  if (status != LP_OK) return status;
  if (!out || !name || (!text && length > 0))
    return embed_fail(LP_INVALID_ARGUMENT, "%s: %s is NULL", what,
                      !out    ? "out"
                      : !name ? "name"
                              : "text");
  return load(engine, "load_text", name, text, length, count, arguments, what, out);
}

lp_status lp_program_load_file(lp_engine *engine, const char *path, int count,
                               const char *const *arguments, lp_program **out) {
  static const char what[] = "lp_program_load_file";
  if (out) *out = NULL;
  lp_status status = embed_check_wait(engine, what);
  if (status == LP_OK) status = check_arguments(count, arguments, what);
  if (status != LP_OK) return status;
  if (!out || !path)
    return embed_fail(LP_INVALID_ARGUMENT, "%s: %s is NULL", what, out ? "path" : "out");
  return load(engine, "load_file", path, "", 0, count, arguments, what, out);
}

void lp_program_free(lp_program *program) {
  if (!program) return;
  lp_engine *engine = program->engine;
  lp_values *given = engine->closed ? NULL : lp_values_new();
  if (given && lp_push_integer(given, program->number) == LP_OK)
    embed_send(engine, "main", "forget", given, NULL, NULL);
  lp_values_free(given);
  embed_unref(engine);
  mem_free(program);
}

/* ---- launching -------------------------------------------------------------- */

void lp_launch_options_init(lp_launch_options *options) {
  if (!options) return;
  *options = (lp_launch_options){.size = sizeof *options, .notice = 10};
}

static lp_status push_pair(lp_values *to, const char *key, const char *value) {
  lp_status status = lp_push_string(to, key);
  return status != LP_OK ? status : value ? lp_push_string(to, value) : lp_push_boolean(to, false);
}

/* [number, options] for embed:launch; false stands for what is not given. */
static lp_status push_launch(lp_values *to, const lp_program *program,
                             const lp_launch_options *options) {
  const lp_engine_options *engine = &program->engine->options;
  lp_status status = lp_push_integer(to, program->number);
  if (status == LP_OK) status = lp_push_map(to, 6);
  if (status == LP_OK) status = push_pair(to, "launch_type", options->launch_type);
  if (status == LP_OK) status = push_pair(to, "name", options->name);
  if (status == LP_OK) status = lp_push_string(to, "notice");
  if (status == LP_OK) status = lp_push_number(to, options->notice);
  if (status == LP_OK) status = lp_push_string(to, "seed");
  if (status == LP_OK) status = lp_push_integer(to, options->seed);
  if (status == LP_OK) status = lp_push_string(to, "threads");
  if (status == LP_OK) status = lp_push_integer(to, engine->threads);
  if (status == LP_OK) status = lp_push_string(to, "spin");
  if (status == LP_OK) status = lp_push_integer(to, engine->spin_us);
  return status;
}

static void run_free(lp_run *run) {
  if (!run) return;
  list_remove(&run->link);
  lp_values_free(run->names);
  embed_unref(run->engine);
  mem_free(run->id);
  mem_free(run->failure);
  mem_free(run);
}

static void tell_end(lp_run *run) {
  void (*fn)(void *, lp_run *, const char *) = run->on_end;
  run->on_end = NULL;
  if (fn && !run->freed) fn(run->user, run, run->failure);
}

/* The service says how the run ended: {failure = {node=, message=}, …}. */
static void on_end(void *user, const lp_error *error, lp_reader *results) {
  lp_run *run = user;
  lp_reader outcome, failure = {0}, map;
  run->watched = false;
  run->ended = true;
  if (!error && lp_read_map(results, &outcome) == LP_OK) failure = reader_field(outcome, "failure");
  if (lp_read_kind(&failure) == LP_MAP && lp_read_map(&failure, &map) == LP_OK) {
    lp_reader name = reader_field(map, "node"), message = reader_field(map, "message");
    char *node = reader_copy_string(&name), *text = reader_copy_string(&message);
    run->failure = mem_format("node %s failed: %s", node ? node : "?", text ? text : "an error");
    mem_free(node);
    mem_free(text);
  } else if (error && !run->engine->closed && run->engine->loop) {
    run->failure = mem_format("the run was lost: %s", error->message);
  }
  tell_end(run);
  if (run->freed) run_free(run);
}

static lp_status watch(lp_run *run) {
  lp_values *given = lp_values_new();
  lp_status status = given ? lp_push_string(given, run->id) : out_of_memory("lp_program_launch");
  if (status == LP_OK) status = lp_push_map(given, 0);
  if (status == LP_OK) status = embed_send(run->engine, "service", "wait_run", given, on_end, run);
  lp_values_free(given);
  run->watched = status == LP_OK;
  return status;
}

/* The results of embed:launch: id, array of names. */
static lp_status take_run(lp_run *run, const lp_values *results) {
  lp_reader reader = lp_values_read(results);
  run->id = reader_copy_string(&reader);
  lp_status status =
      run->id ? lp_push_next(run->names, &reader) : out_of_memory("lp_program_launch");
  return status == LP_OK ? watch(run) : status;
}

lp_status lp_program_launch(lp_program *program, const lp_launch_options *options, lp_run **out) {
  static const char what[] = "lp_program_launch";
  lp_launch_options chosen;
  if (out) *out = NULL;
  if (!program || !out)
    return embed_fail(LP_INVALID_ARGUMENT, "%s: %s is NULL", what, out ? "program" : "out");
  lp_status status = embed_check_wait(program->engine, what);
  if (status != LP_OK) return status;
  lp_launch_options_init(&chosen);
  if (options && (options->size == 0 || options->size > 4 * sizeof chosen))
    return embed_fail(LP_INVALID_ARGUMENT,
                      "%s: options.size is %zu; fill the options in with lp_launch_options_init "
                      "first",
                      what, options->size);
  if (options)
    memcpy(&chosen, options, options->size < sizeof chosen ? options->size : sizeof chosen);
  status = embed_check_seconds(chosen.notice, true, "lp_program_launch: options.notice");
  if (status != LP_OK) return status;
  lp_values *given = lp_values_new(), *results = lp_values_new();
  lp_run *made = mem_new(sizeof *made);
  if (made) {
    list_init(&made->link);
    made->engine = embed_ref(program->engine);
    made->names = lp_values_new();
  }
  status = given && results && made && made->names ? LP_OK : out_of_memory(what);
  if (status == LP_OK) status = push_launch(given, program, &chosen);
  if (status == LP_OK) status = embed_ask(program->engine, "main", "launch", given, 0, results);
  if (status == LP_OK) status = take_run(made, results);
  lp_values_free(given);
  lp_values_free(results);
  if (status != LP_OK) {
    run_free(made);
    return status;
  }
  list_push(&program->engine->runs, &made->link);
  *out = made;
  return LP_OK;
}

/* ---- runs ------------------------------------------------------------------- */

const char *lp_run_id(const lp_run *run) {
  return run ? run->id : NULL;
}

static lp_status check_run(const lp_run *run, const char *what) {
  if (!run) return embed_fail(LP_INVALID_ARGUMENT, "%s: the run is NULL", what);
  return embed_check(run->engine, what);
}

/* Asks the service to stop it; with `wait` until it has heard. */
static lp_status ask_stop(lp_run *run, bool wait, const char *what) {
  lp_values *given = lp_values_new();
  lp_status status = given ? lp_push_string(given, run->id) : out_of_memory(what);
  if (status == LP_OK && wait)
    status = embed_ask(run->engine, "service", "stop_run", given, 0, NULL);
  else if (status == LP_OK)
    status = embed_send(run->engine, "service", "stop_run", given, NULL, NULL);
  lp_values_free(given);
  return in_call(status, what);
}

lp_status lp_run_stop(lp_run *run) {
  lp_status status = check_run(run, "lp_run_stop");
  return status != LP_OK || run->ended ? status : ask_stop(run, false, "lp_run_stop");
}

/* [id, text or false] for embed:reload; its results are a number and notes. */
static lp_status ask_reload(lp_run *run, const char *text, size_t length, lp_values *results) {
  lp_values *given = lp_values_new();
  lp_status status = given ? lp_push_string(given, run->id) : out_of_memory("lp_run_reload");
  if (status == LP_OK)
    status = text ? lp_push_bytes(given, text, length) : lp_push_boolean(given, false);
  if (status == LP_OK)
    status =
        embed_ask(run->engine, "main", "reload", given, run->engine->options.load_timeout, results);
  lp_values_free(given);
  return status;
}

lp_status lp_run_reload(lp_run *run, const char *text, size_t length, size_t *nodes) {
  static const char what[] = "lp_run_reload";
  int64_t count = 0;
  if (nodes) *nodes = 0;
  lp_status status = check_run(run, what);
  if (status == LP_OK) status = embed_check_wait(run->engine, what);
  if (status != LP_OK) return status;
  if (run->ended) return embed_fail(LP_FAILED_PRECONDITION, "%s: the run has ended", what);
  lp_values *results = lp_values_new();
  status = results ? ask_reload(run, text, length, results) : out_of_memory(what);
  lp_reader reader = lp_values_read(results);
  if (status == LP_OK) status = lp_read_integer(&reader, &count);
  if (status == LP_OK) {
    char *notes = reader_copy_string(&reader);
    embed_fail(LP_OK, "%s", notes ? notes : "");
    mem_free(notes);
  }
  if (nodes) *nodes = (size_t)count;
  lp_values_free(results);
  return status;
}

static bool has_ended(void *subject) {
  return ((lp_run *)subject)->ended;
}

lp_status lp_run_wait(lp_run *run, double timeout) {
  lp_status status = check_run(run, "lp_run_wait");
  if (status == LP_OK) status = embed_check_wait(run->engine, "lp_run_wait");
  if (status == LP_OK) status = embed_check_seconds(timeout, true, "lp_run_wait: timeout");
  if (status != LP_OK) return status;
  if (!embed_turn_until(run->engine, has_ended, run, embed_deadline(timeout)))
    return embed_fail(LP_DEADLINE_EXCEEDED, "lp_run_wait: run %s has not ended", run->id);
  return run->failure ? embed_fail(LP_ABORTED, "%s", run->failure) : LP_OK;
}

lp_status lp_run_ended(lp_run *run, bool *ended, bool *failed) {
  lp_status status = check_run(run, "lp_run_ended");
  if (status != LP_OK) return status;
  if (!ended) return embed_fail(LP_INVALID_ARGUMENT, "lp_run_ended: ended is NULL");
  *ended = run->ended;
  if (failed) *failed = run->failure != NULL;
  return LP_OK;
}

/* It had ended before anybody wanted to know. */
static void tell_later(lp_engine *engine, void *user) {
  for (list *each = engine->runs.next; each != &engine->runs; each = each->next) {
    lp_run *run = list_entry(each, lp_run, link);
    if (run != user) continue;
    tell_end(run);
    return;
  }
}

lp_status lp_run_on_end(lp_run *run, void (*fn)(void *user, lp_run *run, const char *failure),
                        void *user) {
  lp_status status = check_run(run, "lp_run_on_end");
  if (status != LP_OK) return status;
  run->on_end = fn;
  run->user = user;
  return run->ended && fn ? lp_post(run->engine, tell_later, run) : LP_OK;
}

lp_status lp_run_close(lp_run *run) {
  if (!run) return LP_OK;
  if (!run->engine->closed) {
    lp_status status = check_run(run, "lp_run_close");
    if (status == LP_OK) status = embed_check_wait(run->engine, "lp_run_close");
    /* Heard it must be, since its end is waited for. */
    if (status == LP_OK && !run->ended) status = ask_stop(run, true, "lp_run_close");
    if (status != LP_OK) return status;
    embed_turn_until(run->engine, has_ended, run, CLOCK_NEVER);
  }
  run->freed = true;
  if (!run->watched) run_free(run);
  return LP_OK;
}

void embed_runs_close(lp_engine *engine) {
  for (list *each = engine->runs.next, *next; each != &engine->runs; each = next) {
    next = each->next;
    lp_run *run = list_entry(each, lp_run, link);
    if (run->watched) embed_turn_until(engine, has_ended, run, clock_now() + 1000000000);
  }
}

/* Is the name among those of the run's nodes? */
static bool has_node(const lp_run *run, const char *name) {
  lp_reader reader = lp_values_read(run->names), names;
  size_t length, wanted = strlen(name);
  const char *each;
  if (lp_read_array(&reader, &names) != LP_OK) return false;
  while (lp_read_bytes(&names, &each, &length) == LP_OK)
    if (length == wanted && memcmp(each, name, wanted) == 0) return true;
  return false;
}

lp_status lp_run_node(lp_run *run, const char *name, lp_node **out) {
  if (out) *out = NULL;
  lp_status status = check_run(run, "lp_run_node");
  if (status != LP_OK) return status;
  if (!name || !out)
    return embed_fail(LP_INVALID_ARGUMENT, "lp_run_node: %s is NULL", out ? "name" : "out");
  if (!has_node(run, name))
    return embed_fail(LP_NOT_FOUND, "lp_run_node: the program has no node \"%s\"", name);
  char *key = mem_format("%s/%s", run->id, name);
  *out = key ? embed_node(run->engine, key, name) : NULL;
  mem_free(key);
  return *out ? LP_OK : out_of_memory("lp_run_node");
}
