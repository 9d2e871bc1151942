/* The serving side: the calls that are handled, what becomes of them, and the requests and
 * notifications that do not go through the inbox (inbox.h): these become tasks at once. */
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
  int64_t due; /* while that timer does not run: until its handler waits, or defers the reply; or
                  CLOCK_NEVER */
  bool failed; /* no answer but an error has been given */
  stopwatch watch;
} call;

/* The name of its method, for messages. */
static inline const char *call_method(const call *call) {
  return call->watch.meter ? call->watch.meter->name : "(unknown)";
}

/* A request or notification came; in node_enter. `frame` points into the link's bytes. */
void server_request(lua_State *L, peer *peer, const frame *frame);
/* Of tasks that handle calls; the context is the call, NULL: it has none at present. */
extern const task_kind server_call_kind;
/* The record of a call of `meter`'s method (or NULL: of what nobody counts); NULL: memory. */
call *server_call_new(peer *peer, uint32_t id, bool notify, meter *meter);
/* Its handler has ended or will not be run; with `later` it lives on until its reply is used. */
void server_left(call *call, bool later);
/* The same of one that has been answered, whose record becomes that of another request of its peer
 * at once. False: it cannot. */
bool server_again(call *call, uint32_t id, meter *meter);
/* One less that runs or is about to. */
void server_less(rpc *rpc);
/* What the caller of an unknown method is told, into FAULT_TEXT bytes; of a node that has ended,
 * into 64 more. */
void server_no_method(const rpc *rpc, const frame *frame, char *text);
void server_ended(const rpc *rpc, char *text);
/* When the caller's time is over; CLOCK_NEVER: it gave none. */
static inline int64_t server_due(const call *call) {
  return timer_running(&call->deadline) ? call->deadline.due : call->due;
}
/* The caller of the request `id` gave up. */
void server_cancel(peer *peer, uint32_t id);
/* The other end is gone: nobody waits for what is handled for it. */
void server_orphan(peer *peer);
/* Drops what was held for a peer, answers what is held when the node ends. */
void server_forget(rpc *rpc);
/* The node serves from now on; what was held back begins. In a protected call or task. */
void server_open(lua_State *L, rpc *rpc);
/* The node never serves: what was held back is refused, and what comes. In a protected call or
 * task. */
void server_close(lua_State *L, rpc *rpc);
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
static inline bool server_can_answer(const call *call) {
  return !call->notify && call->session == call->peer->session && call->peer->state == PEER_OPEN;
}
/* Answers with the values from `first` up; not ok: they could not be sent, and were not. */
lp_status server_answer(lua_State *L, call *call, int first, fault *fault);
/* Answers with the error at `index`. May raise. */
void server_answer_error(lua_State *L, call *call, int index);
/* Answers with an error made without Lua. */
void server_refuse(peer *peer, uint32_t id, lp_status status, const char *text);
/* The same: this node is unavailable, since it ended. */
void server_refuse_ended(peer *peer, uint32_t id);

#endif
