/* A node: one Lua interpreter on one loop, with the tasks that run in it.
 *
 * Only the loop's thread touches a node, except for the fields marked as published. What a
 * node is for (serving calls, the service's policy, the main chunk) is the upper layers'
 * business; they hang on through node_hooks. */
#ifndef LP_RUNTIME_NODE_H
#define LP_RUNTIME_NODE_H

#include <lua.h>
#include <stdatomic.h>

#include "base/list.h"
#include "base/status.h"
#include "runtime/loop.h"

struct engine;
struct lines;
struct writer;
struct task;
typedef struct node node;

typedef enum node_state {
  NODE_STARTING, /* constructing: calls wait */
  NODE_RUNNING,  /* its function runs, or `run` of an object without methods for others */
  NODE_SERVING,
  NODE_DRAINING, /* no new calls; running handlers finish */
  NODE_ENDED
} node_state;

/* Why a coroutine of this node yields to the engine; a field, never a value on a stack. */
typedef enum node_mark {
  MARK_NONE, /* a user's coroutine.yield */
  MARK_WAIT, /* waits for something */
  MARK_SLICE,
  MARK_CLOSE, /* the task's time after its cancellation is over */
  MARK_KILL
} node_mark;

/* What an upper layer wants to know. Each may be NULL; called on the loop's thread. */
typedef struct node_hooks {
  void (*on_stop)(node *node);   /* a stop was asked for; may run Lua */
  void (*on_attend)(node *node); /* node_attend was called; may run Lua */
  void (*on_idle)(node *node);   /* none of its tasks is ready; may run Lua */
  void (*on_close)(node *node);  /* before the interpreter is closed: let go of links */
  void (*on_free)(node *node);   /* after it was closed */
  /* One of its tasks computes, since so many seconds. True: that was said, or is no matter. May
   * be within an interrupt: must run no Lua. */
  bool (*on_busy)(node *node, double seconds);
  /* Writes what it is asked about (inspect.h) as one value; false: unknown. Must run no Lua. */
  bool (*on_inspect)(node *node, const char *what, struct writer *out);
} node_hooks;

struct node {
  list link;       /* loop->nodes */
  hash_link by_id; /* loop->by_id */
  list ready_link; /* loop->ready */
  struct engine *engine;
  loop *loop;
  lua_State *L; /* main state: engine entries only, no task runs on it */
  uint64_t id;  /* unique in the process */
  char *name;   /* "label/index" */
  char *key;    /* run and name: what clients of this process look it up by */
  const node_hooks *hooks;
  void *upper; /* the rpc layer's part */
  struct lines *lines;

  list ready; /* tasks to resume */
  list idle;  /* finished tasks, to be used again */
  int idle_count;
  struct task **tasks; /* by slot; NULL: free slot */
  uint32_t first_wait; /* where a fresh task's wait numbers begin */
  int task_slots, task_count /* alive: neither idle nor free */;
  struct task *current;     /* being resumed now */
  struct task *interrupted; /* computes, and is to stop that: see node_interrupt */
  int64_t interrupted_at;   /* when it was told first; 0: not yet */
  struct task *sliced_last; /* resumed last, and gave up its slice */
  struct task *sliced;      /* gave up its slice: nobody else of this node runs before it */
  int64_t timeslice;        /* ns after which its own tasks are preempted, too; 0: never */
  int64_t slice_began;
  node_mark mark;
  bool killed;            /* to be closed as soon as no frame of it is on the C stack */
  bool stop_pending;      /* on_stop has to be called */
  bool attend;            /* on_attend has to be called */
  bool paused;            /* none of its tasks is resumed */
  bool closing;           /* node_close is at work: nothing may wait any more */
  int entered;            /* frames of this node on the C stack */
  int64_t close_by;       /* deadline of code that runs while closing */
  struct event *farewell; /* reserved for telling the engine of the end */
  lp_status end_status;
  char *end_text;  /* how it ended, for callers that come too late */
  char *end_trace; /* the same with a traceback, for the person who reads the log, or NULL */

  /* Published, and readable by whoever holds a reference (node_ref), also after the end. */
  atomic_int references;
  atomic_int state; /* node_state */
  atomic_bool stopping;
  atomic_size_t memory_bytes;
  size_t memory_limit;       /* 0: none */
  int64_t instruction_limit; /* of a task without waiting; the node is ended beyond. 0: none */
  int64_t instructions;      /* of the task that runs, so far, in steps of INTERRUPT_STEP */
  bool starved;              /* it was met: to be collected when the node has nothing to do */
};

/* The node a state belongs to; user coroutines included. */
static inline node *node_of(lua_State *L) {
  return (node *)(*(uintptr_t *)lua_getextraspace(L) & ~(uintptr_t)1);
}

/* Makes a node with an empty interpreter on `loop`, on that loop's thread. Takes copies of the
 * strings. NULL with fault: memory. */
node *node_new(loop *loop, const char *name, const char *key, const node_hooks *hooks,
               size_t memory_limit, fault *fault);
/* Another id than the one it was made with, before anybody knows that. */
void node_set_id(node *node, uint64_t id);
/* Keeps the structure itself for its published fields, from any thread. */
node *node_ref(node *node);
void node_unref(node *node); /* accepts NULL */
/* Pauses: none of its tasks is resumed, what comes in waits. One that computes gives way where
 * it can. Ends with node_pause(node, false), a stop or a kill. Safe within an interrupt. */
void node_pause(node *node, bool paused);
/* Closes tasks (innermost coroutines first), tells on_close, closes the interpreter and
 * frees. Only when no frame of it is on the C stack. `status` and `text` are how it ended:
 * they are told to the engine (engine_end) and to whoever still calls. */
void node_close(node *node, lp_status status, const char *text);
/* Frees a node that never ran and that nobody knows. */
void node_abort(node *node);
/* Records the end to be reported when node_close comes without a better one. */
void node_set_end(node *node, lp_status status, const char *text);
/* No new calls; when its last task has ended the node is closed. */
void node_drain(node *node);
/* Cancels every task but those that are shielded; safe within an interrupt. `text` is static. */
void node_cancel(node *node, const char *text);
/* What it computes right now ends with an error, however often that is caught; a task that waits is
 * left alone. With a `statement` only the task of this number is meant, and its waits end, too.
 * On the loop's thread; safe within an interrupt. */
void node_interrupt(node *node, int64_t statement);
/* Asks for the stop handlers to be run at the next turn; sets the published mark at once. */
void node_stop(node *node);

/* Calls `fn` protected on the main state with light userdata `ud`; false when it raised,
 * the error's text in `fault`. Nothing that allocates Lua memory may happen outside of
 * this or of a task. */
bool node_enter(node *node, lua_CFunction fn, void *ud, fault *fault);

/* Has on_attend called at the node's next turn: for what must not be done where it is noticed. */
void node_attend(node *node);
/* Puts the node among those that get a turn. */
void node_ready(node *node);
/* Resumes ready tasks, at most `budget`; returns how many it did, or more than a turn's worth
 * when one used up its slice. */
int node_run(node *node, int budget);

/* True when a yield from `L` would reach the task's base. */
bool node_can_yield(const node *node, lua_State *L);

#endif
