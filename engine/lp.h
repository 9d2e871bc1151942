/* Launchpad for Lua: the engine as a library.
 *
 * A host program opens an engine, loads a Lua program (a graph of nodes), launches it in this
 * process (or in processes of its own) and calls lp_poll from its own loop. Everything the host
 * gives and gets, answers of nodes and calls to nodes it implements itself, happens on the
 * host's thread, inside lp_poll: data of the host needs no lock. docs/embedding.md is a
 * tutorial.
 *
 * Rules that hold for every function, unless it says otherwise:
 *   Errors    A function that can fail returns an lp_status; LP_OK is 0. What went wrong, in
 *             words, is lp_message() of the same thread, until its next call that fails.
 *             A NULL where there must be something, a closed engine and a wrong thread are
 *             errors like any other (invalid_argument, failed_precondition).
 *   Times     are in seconds. NaN is refused (invalid_argument), and so is less than 0 where it is
 *             given no meaning.
 *   Threads   An engine and all that was made from it belong to the thread that opened it (or
 *             took it over with lp_engine_adopt). Functions marked "any thread" may be called
 *             from everywhere. Engines are independent of each other.
 *   Owners    Strings and values given to a function are copied. What a function hands out
 *             belongs to the host, which frees it with the function named there; what a
 *             callback is given belongs to the engine and is valid until the callback returns.
 *   Callbacks are called on the engine's thread from within lp_poll, lp_wait and the functions
 *             that wait (marked "waits"). They must not leave by an exception or longjmp, and
 *             functions that wait are refused in them.
 *   Promises  The library never exits, prints, installs signal handlers (except as
 *             lp_engine_options says), reaps children that are not its own, or changes the
 *             signal mask or the current folder.
 *
 * C11 and C++17. */
#ifndef LP_H
#define LP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define LP_API __attribute__((visibility("default")))
#else
#define LP_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- outcomes --------------------------------------------------------------- */

/* The sixteen codes of gRPC: in Lua the `code` of an lp.Error, in lower case. */
typedef enum lp_status {
  LP_OK = 0,
  LP_CANCELLED,
  LP_UNKNOWN,
  LP_INVALID_ARGUMENT,
  LP_DEADLINE_EXCEEDED,
  LP_NOT_FOUND,
  LP_ALREADY_EXISTS,
  LP_PERMISSION_DENIED,
  LP_RESOURCE_EXHAUSTED,
  LP_FAILED_PRECONDITION,
  LP_ABORTED,
  LP_OUT_OF_RANGE,
  LP_UNIMPLEMENTED,
  LP_INTERNAL,
  LP_UNAVAILABLE,
  LP_DATA_LOSS,
  LP_UNAUTHENTICATED
} lp_status;

/* "ok", "cancelled", … A static string, never NULL. Any thread. */
LP_API const char *lp_strerror(lp_status status);

/* What the last call of this thread that failed has to say; "" before the first. Valid until
 * the thread's next call that fails. Any thread. */
LP_API const char *lp_message(void);

/* "0.1.0": of the library in use. A static string. Any thread. */
LP_API const char *lp_version(void);

/* ---- engines ---------------------------------------------------------------- */

typedef struct lp_engine lp_engine;

/* Memory of all interpreters of an engine, as Lua's lua_Alloc: `bytes` 0 frees `block`
 * (`old_bytes` large) and returns NULL; else a block of `bytes` with the old content, or NULL.
 * Called from every thread of the engine, at the same time too. */
typedef void *(*lp_allocate)(void *user, void *block, size_t old_bytes, size_t bytes);

typedef enum lp_output_kind {
  LP_OUTPUT_STDOUT, /* print, io.write, io.stdout of a node */
  LP_OUTPUT_STDERR, /* io.stderr of a node */
  LP_OUTPUT_DEBUG,  /* lp.log.debug, … and reports of the engine */
  LP_OUTPUT_INFO,
  LP_OUTPUT_WARNING,
  LP_OUTPUT_ERROR
} lp_output_kind;

/* Something was printed or logged. `node` is its name ("npc/7"), "main" for the program's own
 * script, "" for the engine. `text`: `length` bytes, terminated; whole lines, the last without
 * its newline. */
typedef void (*lp_output)(void *user, lp_output_kind kind, const char *node, const char *text,
                          size_t length);

typedef struct lp_engine_options {
  size_t size; /* of this structure, set by lp_engine_options_init */

  lp_output output; /* who is told; NULL: nobody, and what is printed is dropped */
  void *output_user;

  lp_allocate allocate; /* NULL: malloc. (The engine's own structures use malloc.) */
  void *allocate_user;

  /* How the engine reaches Lua code that computes (for lp_poll's budget, time slices, kills).
   * false: a count hook stays armed in every interpreter; pure Lua code then takes up to twice
   * as long. true: the engine installs a handler for SIGURG (which by default is ignored) and
   * running code costs nothing; the handler stays when the engine is closed. */
  bool signals;

  /* Path of the command `lp`, for programs that are launched as local_mp. NULL: $LP_COMMAND,
   * else `lp` in bin/ beside the library, else `lp` of the PATH. */
  const char *command;

  size_t memory_limit; /* bytes of the interpreter that loads programs; 0: none */
  double load_timeout; /* seconds a script may take to return its program; 0: no bound */

  double notice; /* seconds lp_engine_close gives programs that run; default 1 */
  int threads;   /* loops for nodes that name none; 0: the default, 64 */
  int spin_us;   /* how long these look for work before they sleep; negative: default */
} lp_engine_options;

/* Fills in the defaults. Any thread; NULL does nothing. */
LP_API void lp_engine_options_init(lp_engine_options *options);

/* Opens an engine; `options` NULL: the defaults. It starts one thread beside the caller's, and
 * later one for each node that has a thread of its own. The host ends it with lp_engine_close
 * and frees it with lp_engine_free. On failure `*out` is NULL. Any thread, which then is the
 * engine's. */
LP_API lp_status lp_engine_open(const lp_engine_options *options, lp_engine **out);

/* Stops what runs (first asked, then after the notice killed), ends the engine's threads and
 * gives back all memory of it but a stub, so that later use of the engine, or of what was made
 * from it, is an error and no crash. Closing again does nothing. Waits.
 * unavailable: a node is inside of a C function and could not be stopped. The message names it;
 * its thread and memory are left alone; calling again tries again. */
LP_API lp_status lp_engine_close(lp_engine *engine);

/* Closes, if need be, and frees. What was made from the engine may still be freed afterwards,
 * and is refused otherwise. NULL does nothing. When it cannot be closed it is not freed. */
LP_API lp_status lp_engine_free(lp_engine *engine);

/* The calling thread takes the engine over. The thread that had it does not use it any more
 * (that is for the host to see to), and no function of the engine is at work. Any thread. */
LP_API lp_status lp_engine_adopt(lp_engine *engine);

/* ---- the host's loop -------------------------------------------------------- */

/* Does what is to be done on the host's thread: answers, calls to host nodes, Lua nodes with
 * loop = "host", output. Returns when nothing is left, at the latest after about `budget`
 * seconds (Lua code is interrupted and goes on at the next call; the host's own callbacks are
 * not). Never sleeps. A budget of 0 does one small step. */
LP_API lp_status lp_poll(lp_engine *engine, double budget);

/* Sleeps until there is something to do, at most `timeout` seconds (negative: for ever), and
 * then does as lp_poll with a budget of `timeout`. For hosts without a loop of their own. Waits. */
LP_API lp_status lp_wait(lp_engine *engine, double timeout);

/* A descriptor that is readable whenever lp_poll has something to do: for select, poll, epoll,
 * libuv, GLib, SDL. It is the engine's: the host neither reads nor closes it. */
LP_API lp_status lp_fd(lp_engine *engine, int *out);

/* Has fn(engine, user) called on the engine's thread, in lp_poll. Any thread, as long as the
 * engine is not being freed. When the engine is closed first, fn is not called. */
LP_API lp_status lp_post(lp_engine *engine, void (*fn)(lp_engine *engine, void *user), void *user);

/* ---- values ----------------------------------------------------------------- */

/* A list of values: arguments or results. It belongs to no engine and to one thread at a time.
 * Values are copied in and out; Lua's kinds of number are kept. */
typedef struct lp_values lp_values;

typedef enum lp_kind {
  LP_END, /* there is no further value */
  LP_NIL,
  LP_BOOLEAN,
  LP_INTEGER,
  LP_NUMBER,
  LP_STRING, /* bytes */
  LP_ARRAY,
  LP_MAP,
  LP_CLIENT, /* a client of a node: lp_read_node */
  LP_OTHER   /* an instance of a class given to lp.register: lp_read_skip */
} lp_kind;

/* An empty list, freed with lp_values_free. NULL: memory is out. Any thread. */
LP_API lp_values *lp_values_new(void);
LP_API void lp_values_free(lp_values *values); /* NULL does nothing */
LP_API void lp_values_clear(lp_values *values);
LP_API size_t lp_values_count(const lp_values *values); /* top level; 0 for NULL */

/* Appends a value. resource_exhausted: memory. */
LP_API lp_status lp_push_nil(lp_values *values);
LP_API lp_status lp_push_boolean(lp_values *values, bool value);
LP_API lp_status lp_push_integer(lp_values *values, int64_t value);
LP_API lp_status lp_push_number(lp_values *values, double value);
LP_API lp_status lp_push_string(lp_values *values, const char *text); /* terminated */
LP_API lp_status lp_push_bytes(lp_values *values, const void *bytes, size_t length);
/* The next `count` values pushed (for a map: `count` times a key and a value) are its elements
 * and not elements of the list. Nested at most 200 deep. */
LP_API lp_status lp_push_array(lp_values *values, size_t count);
LP_API lp_status lp_push_map(lp_values *values, size_t count);

/* Reads values one after the other. Not allocated, nothing to free; its fields are private.
 * A value of another kind than asked for is invalid_argument, with number and kind in the
 * message, and stays the next. */
typedef struct lp_reader {
  const unsigned char *at, *end;
  size_t left, index;
} lp_reader;

/* A reader of the list from its beginning; valid until the list changes. */
LP_API lp_reader lp_values_read(const lp_values *values);
LP_API lp_kind lp_read_kind(const lp_reader *reader); /* of the next value; LP_END for NULL */
LP_API size_t lp_read_left(const lp_reader *reader);  /* values not read yet; 0 for NULL */
LP_API lp_status lp_read_nil(lp_reader *reader);
LP_API lp_status lp_read_boolean(lp_reader *reader, bool *out);
LP_API lp_status lp_read_integer(lp_reader *reader, int64_t *out); /* also 3.0 */
LP_API lp_status lp_read_number(lp_reader *reader, double *out);   /* also integers */
/* The bytes are not terminated, and valid as long as what is read. */
LP_API lp_status lp_read_bytes(lp_reader *reader, const char **out, size_t *length);
/* A copy, terminated, of a string that is shorter than `size` and has no byte 0. */
LP_API lp_status lp_read_string(lp_reader *reader, char *out, size_t size);
/* `elements` reads those of the array; of a map: key, value, key, value, … */
LP_API lp_status lp_read_array(lp_reader *reader, lp_reader *elements);
LP_API lp_status lp_read_map(lp_reader *reader, lp_reader *elements);
LP_API lp_status lp_read_skip(lp_reader *reader); /* any one value */
/* Appends the next value of the reader to a list, whatever it is. */
LP_API lp_status lp_push_next(lp_values *values, lp_reader *reader);

/* ---- programs and runs ------------------------------------------------------ */

typedef struct lp_program lp_program;
typedef struct lp_run lp_run;

/* Runs a script, which has to return a program made by lp.Program. (After options.load_timeout
 * it fails with deadline_exceeded, and the script is interrupted in the next polls.) `arguments`,
 * `count` of them, are its `...` and `arg` (NULL and 0: none). `*out` is freed with
 * lp_program_free. Waits until the script has returned. not_found: no such file; invalid_argument:
 * it does not compile, or returns no program; unknown or a code of its own: it raised. */
LP_API lp_status lp_program_load_file(lp_engine *engine, const char *path, int count,
                                      const char *const *arguments, lp_program **out);
/* The same for `length` bytes of text, named `name` in messages. Bytecode is refused. */
LP_API lp_status lp_program_load_text(lp_engine *engine, const char *name, const char *text,
                                      size_t length, int count, const char *const *arguments,
                                      lp_program **out);
LP_API void lp_program_free(lp_program *program); /* runs go on; NULL does nothing */

typedef struct lp_launch_options {
  size_t size;             /* of this structure, set by lp_launch_options_init */
  const char *launch_type; /* "local_mt" (the default), "local_mp", … */
  const char *name;        /* of the run; NULL: the program's */
  double notice;           /* seconds between stop and kill; default 10, see lp.launch */
  int64_t seed;            /* of math.random in all nodes; 0: a different one each time */
} lp_launch_options;

LP_API void lp_launch_options_init(lp_launch_options *options);

/* Launches; a program can be launched once. `options` NULL: the defaults. Returns when the
 * graph was checked and packed; the nodes start meanwhile. `*out` is ended and freed with
 * lp_run_close. invalid_argument: an option, or the graph, is not as it must be; the message names
 * what it is and what it may be. Waits. */
LP_API lp_status lp_program_launch(lp_program *program, const lp_launch_options *options,
                                   lp_run **out);

/* The run's id, as `lp ps` shows it; the run's. NULL for NULL. */
LP_API const char *lp_run_id(const lp_run *run);
/* Runs the script again, `length` bytes of `text` (NULL: its file is read again), and gives the
 * run's nodes the methods they would get now. Their state stays, running calls finish with the
 * code they began with, and an instance with a method __reload has it called. `*nodes` (may be
 * NULL): how many have new code. LP_OK also when some have none: lp_message says which and why,
 * or is "". invalid_argument: the script does not compile, raises or returns no program; then all
 * keep their code. Waits. */
LP_API lp_status lp_run_reload(lp_run *run, const char *text, size_t length, size_t *nodes);
/* Asks the program to stop and returns. */
LP_API lp_status lp_run_stop(lp_run *run);
/* Waits until it has ended, at most `timeout` seconds (negative: for ever). LP_OK: it ended
 * well or was stopped; aborted: a node failed, the message has its name and error;
 * deadline_exceeded: it still runs. Waits. */
LP_API lp_status lp_run_wait(lp_run *run, double timeout);
/* Has it ended? `*failed` (may be NULL): because a node failed. Never waits. */
LP_API lp_status lp_run_ended(lp_run *run, bool *ended, bool *failed);
/* fn is called once, when the run has ended: `failure` NULL, or the failed node and its error.
 * Replaces one given before; NULL takes it back. When it has ended already: at the next poll. */
LP_API lp_status lp_run_on_end(lp_run *run,
                               void (*fn)(void *user, lp_run *run, const char *failure),
                               void *user);
/* Stops the run, waits for its end and frees it. NULL does nothing. Waits. When a node of it
 * failed that is not told here again. When it fails (memory) the run stays, to be closed again. */
LP_API lp_status lp_run_close(lp_run *run);

/* ---- nodes ------------------------------------------------------------------ */

typedef struct lp_node lp_node;

/* An error that came back from a node. */
typedef struct lp_error {
  lp_status status; /* LP_UNKNOWN for codes that are none of the sixteen */
  const char *code; /* as in Lua: "not_found", "unknown", or a program's own */
  const char *message;
  const char *node;      /* where it was raised; "" when that is not known */
  const char *traceback; /* the Lua traceback there; "" when there is none */
} lp_error;

/* The answer to a call: `error` NULL and the results, or the error and no results. */
typedef void (*lp_answer)(void *user, const lp_error *error, lp_reader *results);

/* A client of a node of the run, by its name: "npc/7". Freed with lp_node_free.
 * not_found: the program has no such node. */
LP_API lp_status lp_run_node(lp_run *run, const char *name, lp_node **out);
/* Calls under way are answered all the same. NULL does nothing. */
LP_API void lp_node_free(lp_node *node);
LP_API const char *lp_node_name(const lp_node *node); /* the node's; NULL for NULL */

/* Calls a method and returns at once; `answer` (NULL: nobody) is called exactly once, in
 * lp_poll: with the results or an error, deadline_exceeded after `timeout` seconds (0: none),
 * unavailable when the node has ended. Only when LP_OK is returned. `arguments` NULL: none.
 * resource_exhausted: as many calls to the node are under way as it takes from one other (its
 * options edge_calls and edge_bytes: 1,024 and 64 MiB). */
LP_API lp_status lp_node_call(lp_node *node, const char *method, const lp_values *arguments,
                              double timeout, lp_answer answer, void *user);
/* One way: no answer, and errors are logged by the node. */
LP_API lp_status lp_node_notify(lp_node *node, const char *method, const lp_values *arguments);
/* Calls and waits. `results` (may be NULL) is cleared and gets them. The status and message are
 * those of the error that came back. Waits. */
LP_API lp_status lp_node_call_wait(lp_node *node, const char *method, const lp_values *arguments,
                                   double timeout, lp_values *results);
/* Calls from here to this node that are not answered yet. 0 for NULL. */
LP_API size_t lp_node_pending(const lp_node *node);

/* Clients as values: a Lua node that is given one can call the node behind it. */
LP_API lp_status lp_push_node(lp_values *values, const lp_node *node);
/* `*out` is freed with lp_node_free. */
LP_API lp_status lp_read_node(lp_engine *engine, lp_reader *reader, lp_node **out);

/* ---- host nodes ------------------------------------------------------------- */

/* A call from a Lua node (or from C) to a node that the host implements. */
typedef struct lp_call lp_call;

/* Handles a call: now, or later, it has to give it to exactly one of lp_call_return and
 * lp_call_fail. `arguments` are valid until the method returns. */
typedef void (*lp_method)(void *user, lp_call *call, lp_reader *arguments);

typedef struct lp_methods {
  const char *name; /* NULL: behind the last one */
  lp_method fn;
} lp_methods;

/* The methods of nodes that programs make with lp.HostNode(name). `methods` end with a name of
 * NULL and are copied; a method "*" is called for names that are not among them
 * (lp_call_method tells which). To be given before a program with such a node is launched.
 * already_exists: of this name there are some. */
LP_API lp_status lp_host_node(lp_engine *engine, const char *name, const lp_methods *methods,
                              void *user);

/* Answers and frees the call. `results` NULL: none. LP_OK also when nobody waits any more (the
 * caller gave up, or its deadline has passed). When results cannot be sent the caller is told
 * why, and so is the host. */
LP_API lp_status lp_call_return(lp_call *call, const lp_values *results);
/* The same with an error; `message` its words, taken literally (NULL: those of lp_strerror). */
LP_API lp_status lp_call_fail(lp_call *call, lp_status status, const char *message);
LP_API const char *lp_call_method(const lp_call *call); /* the call's; NULL for NULL */
/* The name of the node that was called, "world/0": one implementation may serve several. */
LP_API const char *lp_call_node(const lp_call *call);
/* Does somebody still wait for the answer? false for notifications. */
LP_API bool lp_call_wanted(const lp_call *call);

#ifdef __cplusplus
}
#endif
#endif
