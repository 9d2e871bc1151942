/* What the files of the embedding API (lp.h) share. An lp_engine is a host (api/host.h: the
 * service thread with the policy) and a loop that has no thread of its own: the host program
 * turns it in lp_poll. On that loop live the node "main", which loads programs (lua/lp/embed.lua),
 * the node "host", which calls in C's name, host nodes, and Lua nodes with loop = "host". */
#ifndef LP_API_EMBED_H
#define LP_API_EMBED_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <time.h>

#include "api/host.h"
#include "base/buffer.h"
#include "lp.h"
#include "rpc/native.h"

struct lp_engine {
  atomic_int references; /* the host's own and one for each thing made from it */
  pthread_t thread;      /* whose it is */
  bool closed;
  int depth; /* above 0: within a function that turns the loop */
  lp_engine_options options;
  char *command;
  host *host;
  loop *loop;
  mailbox *box;          /* the loop's, for lp_post; outlives it */
  uint64_t main, caller; /* ids of the two nodes */
  list nodes;            /* lp_node.link */
  list runs;             /* lp_run.link */
  list failed;           /* sent_call.link: calls to be told their failure */
  list implementations;  /* what lp_host_node gave */
  int poll_fd, timer_fd; /* of lp_fd; -1: not asked for */
  int64_t armed;         /* what timer_fd is set to */
  timer_t alarm;         /* with options.signals: ends lp_poll's budget */
  bool has_alarm;
  pid_t alarm_thread;
};

/* ---- embed_engine.c --------------------------------------------------------- */

/* Keeps the words for lp_message and returns the status. */
lp_status embed_fail(lp_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
lp_status embed_fault(const fault *fault);
/* Is the engine there, open, and the calling thread's? `what` is the function, for messages. */
lp_status embed_check(const lp_engine *engine, const char *what);
/* The same for functions that turn the loop. */
lp_status embed_check_wait(const lp_engine *engine, const char *what);
lp_engine *embed_ref(lp_engine *engine);
void embed_unref(lp_engine *engine); /* accepts NULL */
/* The rpc part that calls are made from; NULL when its node has ended. */
rpc *embed_rpc(lp_engine *engine);

/* ---- embed_poll.c ----------------------------------------------------------- */

/* One turn, which sleeps until `until` at most (0: not); tells calls that failed. */
void embed_turn(lp_engine *engine, int64_t until);
/* What is turned from now on ends by the absolute time, Lua in it too; CLOCK_NEVER: no more. */
void embed_bound(lp_engine *engine, int64_t until);
/* Turns until done(subject) or the absolute time; was it done? */
bool embed_turn_until(lp_engine *engine, bool (*done)(void *subject), void *subject, int64_t until);
void embed_poll_fini(lp_engine *engine);
/* CLOCK_NEVER for a negative one. */
int64_t embed_deadline(double seconds);
/* Refuses what is no time: NaN, and what is less than 0 unless that has a meaning (`below`).
 * `what`: "lp_wait: timeout". */
lp_status embed_check_seconds(double seconds, bool below, const char *what);

/* ---- embed_values.c --------------------------------------------------------- */

struct lp_values {
  buffer bytes;
  size_t count;        /* at top level */
  int depth;           /* containers that are not complete */
  size_t missing[200]; /* values they still lack, outermost first */
};

/* Are all arrays and maps complete? `what` is the function, for messages. */
lp_status values_check(const lp_values *values, const char *what);
/* A reader of `length` bytes at `data`, one MessagePack array (an answer's or call's body). */
lp_reader reader_of_array(const uint8_t *data, size_t length);
/* The value behind a key of a map; LP_END when there is none. */
lp_reader reader_field(lp_reader map, const char *key);
/* A string as a fresh copy (mem_free), or NULL when the next is none or memory is out. */
char *reader_copy_string(lp_reader *reader);

/* ---- embed_call.c ----------------------------------------------------------- */

struct lp_node {
  list link; /* engine->nodes */
  lp_engine *engine;
  peer *peer; /* NULL: the engine was closed */
  char *name;
};

/* A client of the node behind `key`. NULL: memory. */
lp_node *embed_node(lp_engine *engine, const char *key, const char *name);
/* Calls a node of the engine's own ("service", "main") and waits for its answer; `results` may
 * be NULL. After `timeout` seconds (0: none) what it computes is interrupted. */
lp_status embed_ask(lp_engine *engine, const char *key, const char *method,
                    const lp_values *arguments, double timeout, lp_values *results);
/* The same without waiting, and without a node of the host's. */
lp_status embed_send(lp_engine *engine, const char *key, const char *method,
                     const lp_values *arguments, lp_answer answer, void *user);
/* Tells those whose calls have failed. */
void embed_tell_failed(lp_engine *engine);
/* The engine is being closed: nodes lose their peers. */
void embed_nodes_close(lp_engine *engine);

/* ---- embed_host.c, embed_run.c ---------------------------------------------- */

/* For engine.native: the body of the host nodes of this name, or NULL. */
const native_body *embed_native(engine *engine, const char *name);
void embed_host_fini(lp_engine *engine);

#endif
