/* A loop: one thread with its poller, timers and mailbox, hosting any number of nodes.
 *
 * A node never moves to another loop, so nothing in a node needs a lock. loop_turn is the
 * primitive: control queue, due deadlines, mail, ready nodes within a budget, flushing of
 * what was written, then a wait. A loop's own thread calls it for ever; a thread that
 * belongs to somebody else (the command's main thread, a host) calls it when it likes. */
#ifndef LP_RUNTIME_LOOP_H
#define LP_RUNTIME_LOOP_H

#include <lua.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/mailbox.h"
#include "base/slab.h"
#include "base/status.h"
#include "net/stream.h"
#include "runtime/timer.h"

struct engine;
struct node;

/* Something with unsent output, flushed once at the end of the turn. */
typedef struct flushable {
  list link;
  int64_t since; /* about when it was put on the list */
  void (*flush)(struct flushable *self);
  /* How long it can stay unflushed while others run, ns. NULL: to the end of the turn. */
  int64_t (*patience)(const struct flushable *self);
} flushable;

enum { LOOP_TURN_RESUMES = 256, LOOP_TURN_NS = 200000 };

/* Reasons for an interrupt, bits of loop.interrupt. */
enum { INTERRUPT_CONTROL = 1, INTERRUPT_SLICE = 2 };
enum { LOOP_WHERE = 12 };

typedef struct loop {
  struct engine *engine;
  char name[96];
  mailbox *box;
  poller *poller;
  poller_watch *wake;
  stream_scratch scratch;
  slabs slabs; /* small blocks of its nodes' interpreters */
  timer_wheel timers;
  /* clock_now of the turn's beginning, or of when something came that ended its sleep */
  int64_t now;
  bool slept; /* `now` is of before a sleep */
  list nodes; /* all that live here */
  hash by_id; /* the same, by node.id */
  list ready; /* nodes with something to run, by ready_link */
  list dirty; /* flushables */
  pthread_t thread;
  bool threaded;      /* has a thread of its own */
  bool quit;          /* ends when its last node has ended */
  bool until_empty;   /* turned only while it has nodes: the last one's turn must not wait */
  bool lazy;          /* a host's: a turn that does not wait looks at no descriptors but sockets */
  bool awake;         /* what its owner waits for may have come: this turn must not wait */
  bool behind;        /* its mail has waited long: all of it is looked at before anything runs */
  message quitting;   /* what loop_quit sends */
  int64_t looked;     /* clock_now of the last look at the clock, some 32 resumes or calls ago */
  int since_look;     /* resumes since, and calls that one resume went on with, */
  int look_every;     /* and after how many of them the next look is due */
  int64_t work_until; /* its turns, and Lua in them, end by then; 0: no bound */
  int64_t spin_ns;    /* looks for work so long before it sleeps; 0: never */
  int spin_trust;     /* above 0: spinning has lately paid off */
  bool roused;        /* the last sleep was short: the next spin may last longer */
  /* The coroutine Lua is executing right now, for the interrupt signal of this very
   * thread; NULL while no Lua runs. */
  _Atomic(lua_State *) running;
  atomic_int interrupt; /* INTERRUPT_* asked for and not yet seen */
  /* Published for the service thread. */
  atomic_uint_fast64_t resumes; /* counts every entry into Lua */
  atomic_int node_count;        /* also reserved places of nodes under way */
  atomic_bool ended;            /* the thread is about to return */
  atomic_uint_fast64_t watched; /* `resumes` + 1 when on_busy was called last and said so */
  atomic_bool answered;         /* on_busy was called since the watchdog asked last */
  atomic_uint_fast64_t where[LOOP_WHERE]; /* see interrupt_where */
} loop;

/* A loop without thread, to be turned by its creator's thread; NULL with fault. */
loop *loop_new(struct engine *engine, const char *name, fault *fault);
/* Starts the loop's thread, which ends (and may be joined) after loop_quit once no node is
 * left. */
lp_status loop_start(loop *loop, fault *fault);
/* From any thread, once: the thread ends when its last node has. Needs no memory. */
void loop_quit(loop *loop);
/* Joins the thread (if any) and frees. No node may live on it. */
void loop_free(loop *loop);

/* One turn; waits at most until `until` (absolute; 0: does not wait). */
void loop_turn(loop *loop, int64_t until);
/* Is there something that a turn would do now, timers and descriptors apart? */
bool loop_busy(const loop *loop);
/* The node of this id on this loop, or NULL. */
struct node *loop_find_node(loop *loop, uint64_t id);
/* A task was resumed, or went on with something else. Others only read the count, so that no locked
 * addition is needed. */
static inline void loop_count(loop *loop) {
  uint_fast64_t count = atomic_load_explicit(&loop->resumes, memory_order_relaxed);
  atomic_store_explicit(&loop->resumes, count + 1, memory_order_relaxed);
}
/* A task was resumed. Looks at the clock now and then, and flushes what has waited too long. */
void loop_look(loop *loop);
static inline void loop_resumed(loop *loop) {
  if (++loop->since_look >= loop->look_every) loop_look(loop);
}
/* Something came from outside: brings `now` up to date after a sleep. */
static inline void loop_came(loop *loop) {
  if (!loop->slept) return;
  loop->slept = false;
  loop->now = loop->looked = clock_now();
}
/* Puts `item` on the list of what is flushed at the end of the turn, once. */
void loop_dirty(loop *loop, flushable *item);

#endif
