/* What the files of the host share: its structure, and what one asks of another. host.c is
 * life, events and output; host_loops.c, host_nodes.c, host_children.c, host_rundirs.c are
 * what it hosts; host_routes.c is where output goes, host_journal.c what was printed lately;
 * host_inspect.c and host_watch.c look at what runs. All of it runs on the service thread unless
 * said otherwise. */
#ifndef LP_API_HOST_PARTS_H
#define LP_API_HOST_PARTS_H

#include <lauxlib.h>

#include "api/host.h"
#include "net/poller.h"
#include "process/printer.h"
#include "runtime/failure.h"
#include "runtime/node.h"

/* What the watchdog knows of a loop. */
typedef struct watched {
  uint64_t resumes; /* when it was looked at last */
  int64_t since;    /* that was so first; 0: no Lua ran */
  int64_t asked_at; /* the loop was asked what it does; 0: not yet */
  bool said;
} watched;

/* A loop that hosts nodes of this process. */
typedef struct hosted_loop {
  list link; /* host->loops */
  loop *loop;
  int nodes;    /* of host->nodes that live there */
  bool shared;  /* by name, or because there are more nodes than threads */
  bool foreign; /* the main thread's: not ours to end */
  watched watched;
  int nudges;    /* of a control queue that was not looked at */
  uint64_t seen; /* resumes at the last tick */
} hosted_loop;

/* A node of this process, from its start until its end was told. */
typedef struct hosted_node {
  list link;       /* host->nodes */
  hash_link by_id; /* host->nodes_by_id */
  uint64_t id;
  hosted_loop *at;
  bool adopted;         /* made by host_adopt */
  _Atomic(node *) node; /* a reference, once it is born: for its published fields only */
} hosted_node;

struct host {
  engine engine;
  uint64_t service; /* id of the policy's node; see host_service */
  printer *printer;
  host_options options;
  size_t held_back; /* bytes counted as queued although the printer has them */
  list loops, nodes, children, rundirs, routes;
  hash nodes_by_id;
  int shared_loops;
  int events;    /* registry reference of the service's handler */
  timer partial; /* prints partial lines of children */
  timer tick;
  timer watch; /* the watchdog's */
  int64_t watched_at;
  int64_t reaped_at; /* orphans were looked for */
  int64_t slice_ns;  /* between ticks */
  poller_watch *signals;
  bool closing;          /* host_free is at work */
  int64_t said_dropped;  /* when it was last said that log lines were dropped */
  bool said_full;        /* that a log file cannot be written */
  bool said_failed;      /* that the policy failed */
  atomic_int live_nodes; /* for host_free, which another thread calls */
};

/* Of the policy's state, in which all functions of lp.core.host run. */
static inline host *host_of(lua_State *L) {
  return node_of(L)->engine->owner;
}

static inline int host_raise(lua_State *L, const fault *fault) {
  return failure_raise(L, fault->status, fault->text);
}

/* What the policy's handler is called with; the strings are copied, NULL: nil or "". */
typedef struct told {
  host *host; /* set by host_tell */
  const char *kind;
  lua_Integer first, second;
  const char *name, *text;
  size_t length; /* of text */
} told;

void host_tell(host *host, told told);

/* Timer of the time slices, stopped at first. */
void host_loops_init(host *host);
/* The loop for a new node: by name, its own, or the one with the fewest nodes. At most
 * `threads` have no name. NULL with fault. */
hosted_loop *host_loop_choose(host *host, const char *name, lua_Integer threads, fault *fault);
/* A node there has its tasks preempted, perhaps more often than nodes are. */
void host_loop_slice(host *host, hosted_loop *hosted, int64_t slice_ns);
/* Forgets a loop, and ends it when it is ours. It has no node any more. */
void host_loop_drop(host *host, hosted_loop *hosted);

/* The node of this id, or NULL. */
hosted_node *host_find_node(host *host, uint64_t id);
/* The watchdog's timer, stopped at first, and its start. */
void host_watch_init(host *host);
void host_watch_start(host *host);
/* Seconds for which the loop has been running the same piece of Lua, as far as was seen. */
double host_watch_seconds(const hosted_loop *hosted);
/* Words of the engine itself, past the printer when that finds no memory. */
void host_say(host *host, const char *text, size_t length);

/* Forgets a node that has ended, and its loop with it when that has no other. */
void host_node_ended(host *host, uint64_t id);

/* Kills what is left of the children, with their groups, and frees their watches. */
void host_children_init(host *host);
void host_children_clear(host *host);
/* Signals that arrive at options.signal_fd are told to the policy. */
void host_signals_watch(host *host);

/* Removes the run folders this process holds. */
void host_rundirs_clear(host *host);

/* Where the output of the node or process `key` goes instead; NULL: nowhere else. */
const divert *host_divert(const host *host, const char *key);
void host_routes_clear(host *host);

/* Functions for lp.core.host, one list a file. */
extern const luaL_Reg host_node_functions[], host_child_functions[], host_rundir_functions[],
    host_inspect_functions[], host_route_functions[], host_journal_functions[];

#endif
