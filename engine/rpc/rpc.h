/* What a node needs to serve calls and to make them: the rpc layer's part of a node, its spawned
 * tasks, and how it fails. One message goes client -> peer -> link | link -> peer -> inbox -> task,
 * or what the inbox leaves alone from the peer to the server. */
#ifndef LP_RPC_RPC_H
#define LP_RPC_RPC_H

#include <lua.h>

#include "rpc/meter.h"
#include "runtime/node.h"
#include "runtime/task.h"
#include "runtime/terms.h"
#include "wire/codec.h"

struct pending;
struct call;
struct held;
struct native_body;

enum { RPC_STANDARD = 10 };

/* Requests that have come and not begun, see inbox.h. */
typedef struct inbox {
  buffer bytes;
  size_t at;   /* of the first; what is before has begun */
  int count;   /* of them */
  task *next;  /* is ready and takes the first; or NULL */
  bool sealed; /* nothing is put in until it is empty */
  /* The method that was found last, by whom; NULL: it has to be looked up again. */
  const task *owner;
  meter *meter;
  int method_values;
  int64_t moment;      /* see clock_passed_in; begins when a handler ends */
  lp_status cancelled; /* the program stopped before they began */
  const char *cancelled_text;
} inbox;

/* What can be used up, and how often it was. */
typedef enum bound {
  BOUND_EDGE,          /* edge_calls, edge_bytes of a node called: met by calls from here */
  BOUND_PENDING,       /* max_pending */
  BOUND_PENDING_BYTES, /* max_pending_bytes */
  BOUND_ANSWERS,       /* answer_bytes */
  BOUND_BARE,          /* edge_calls of here, met by a caller without hello */
  BOUND_MESSAGE,       /* the size of a message, met by one that came in */
  BOUND_COUNT
} bound;

/* The rpc layer's part of a node (node->upper). */
typedef struct rpc {
  node *node;
  codec codec;
  list peers;                         /* by peer.link */
  hash by_target;                     /* those with a target, by peer.by_target */
  bool serving;                       /* requests are dispatched; before that they are held */
  bool closed;                        /* it serves nobody: requests are refused */
  const void *standard[RPC_STANDARD]; /* the same of tables whose functions are no methods */
  int instance, expose, constructor;  /* registry references; LUA_NOREF: none */
  const void *constructor_address;    /* lua_topointer of it, or NULL */
  int index_name;                     /* registry reference of the string "__index" */
  int bound;                          /* what an instance bound itself, by name */
  int priority;                       /* set of methods that pass the limits below */
  int max_running, max_held;          /* handlers at once, calls waiting; 0: no limit */
  int running, held_count;
  size_t max_held_bytes, max_answer_bytes, held_bytes;
  terms terms; /* what this node takes from each caller */
  uint64_t met[BOUND_COUNT];
  meters made, served; /* by method: calls from here, and handled here */
  uint64_t refused;    /* calls that were not begun, for whatever reason */
  int64_t born;
  int64_t arrived_at; /* when the call that is being dispatched came; 0: now */
  uint64_t watched;   /* times the watchdog has spoken */
  bool unhealthy;     /* the instance says so */
  bool stopped;       /* the instance stopped its server */
  inbox inbox;
  list deferred;                 /* calls to be answered later, by call.link */
  struct held *held, **held_end; /* requests that came before serving */
  const void *client;            /* that was called last and has not been collected; or NULL */
  struct pending *free_pending;
  struct frame_splitter *adoptable; /* whose long string may be had now (adopt.h), or NULL */
  struct call *free_calls;
  int free_call_count;
  const struct native_body *native; /* calls are answered by it, in C; or NULL */
  int on_stop, connector;           /* registry references of Lua functions */
  struct pending *answering; /* whose answer is being decoded; off its peer's table already */
  task *maker;               /* runs the constructor */
  char *circle;              /* who holds the call it waits for, see circle.h; or NULL */
  struct pending *circle_call;
  uint32_t circle_id;
  bool stop_asked;    /* perhaps before on_stop was known */
  uint64_t expired;   /* requests that were given up before they ran */
  bool look_for_lost; /* a spawned task failed: see whether anybody holds its future */
  bool settling;      /* it has just started and has left garbage */
  list listeners;     /* by listening.link */
} rpc;

static inline rpc *rpc_of(lua_State *L) {
  return node_of(L)->upper;
}

/* Starts a task that calls the function below the `nargs` values on top (popped). Its error
 * is a failure of the node. */
void rpc_spawn(lua_State *L, int nargs);
/* The same with a future, which is pushed. */
void rpc_spawn_future(lua_State *L, int nargs);
/* A warning in the program's log, in this node's name. */
void rpc_log(lua_State *L, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Any thread: has the node `id` of the loop behind `box` accept on the listening socket `fd`
 * (taken over) of a `path`. False: the loop has ended. */
bool rpc_listen(mailbox *box, uint64_t id, int fd, const char *path);
/* On the node's own thread: closes the listener of this path, if there is one. */
void rpc_unlisten(rpc *rpc, const char *path);

/* Hooks for node_new; a node made with them gets its rpc part from rpc_open. */
extern const node_hooks rpc_hooks;
/* Sets up the rpc part of a fresh node. False with fault: memory. */
bool rpc_open(node *node, terms terms, fault *fault);
/* A bound was met; the first time the log says so, in the words of `text`. */
void rpc_met(lua_State *L, bound bound, const char *text);

/* The node failed with the lp.Error at the top of L: it is closed, the engine told. */
void node_fail(lua_State *L);

#endif
