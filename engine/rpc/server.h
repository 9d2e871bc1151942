/* The serving side: requests become tasks, what these end with becomes the response. */
#ifndef LP_RPC_SERVER_H
#define LP_RPC_SERVER_H

#include "rpc/peer.h"

enum { SERVER_IDLE_CALLS = 256 }; /* freed call records kept */

/* A call to here that is being handled. */
typedef struct call {
  struct call *next; /* free list */
  list link;         /* rpc->deferred, or alone */
  peer *peer;
  uint32_t session; /* of the peer when it came; answers to an older one are dropped */
  uint32_t id;
  bool notify;
  task *task;           /* NULL: it has ended, the answer comes later */
  struct reply *reply;  /* what it comes through, or NULL */
  struct call **holder; /* cleared when the call is over; or NULL */
  timer deadline;       /* ends it, if the caller gave it a time */
  bool failed;          /* no answer but an error has been given */
  stopwatch watch;
} call;

/* The name of its method, for messages. */
static inline const char *call_method(const call *call) {
  return call->watch.meter ? call->watch.meter->name : "(unknown)";
}

/* A request or notification came; in node_enter. `frame` points into the link's bytes. */
void server_request(lua_State *L, peer *peer, const frame *frame);
/* For server_small.h: the record of the call in `frame`, NULL: memory is out; begins the call
 * whose function and `nargs` arguments are on its task. */
extern const task_kind server_call_kind;
call *server_call_new(peer *peer, const frame *frame);
void server_run(task *task, call *call, int nargs, int64_t due);
/* Memory was out in the middle of server_request: what it had begun is given back. */
void server_give_up(rpc *rpc);
/* The caller of the request `id` gave up. */
void server_cancel(peer *peer, uint32_t id);
/* The other end is gone: nobody waits for what is handled for it. */
void server_orphan(peer *peer);
/* Drops what was held for a peer, answers what is held when the node ends. */
void server_forget(rpc *rpc);
/* The node serves from now on; what was held back begins. In a protected call or task. */
void server_open(lua_State *L, rpc *rpc);
/* Calls may begin again (limits changed, a handler ended). In a protected call or task. */
void server_continue(lua_State *L, rpc *rpc);
/* The call the running task handles, or NULL. */
call *server_call(lua_State *L);
/* The call that a task handles, or NULL. */
const call *server_call_of(const task *task);
/* A call that no task handles: it is answered later, or over at its deadline. NULL: memory. */
call *server_begin(peer *peer, const frame *frame, int64_t due);
/* Done with it. */
void server_release(call *call);
/* The peer of the call the running task handles, or NULL. */
peer *server_caller(lua_State *L);

/* ---- answers: server_answer.c ----------------------------------------------- */

/* May its answer still be sent? */
bool server_can_answer(const call *call);
/* Answers with the values from `first` up; not ok: they could not be sent, and were not. */
lp_status server_answer(lua_State *L, call *call, int first, fault *fault);
/* Answers with the error at `index`. May raise. */
void server_answer_error(lua_State *L, call *call, int index);
/* Answers with an error made without Lua. */
void server_refuse(peer *peer, uint32_t id, lp_status status, const char *text);
/* The same: this node is unavailable, since it ended. */
void server_refuse_ended(peer *peer, uint32_t id);

#endif
