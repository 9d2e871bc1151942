/* The serving side: requests become tasks, what these end with becomes the response. */
#ifndef LP_RPC_SERVER_H
#define LP_RPC_SERVER_H

#include "rpc/peer.h"

enum { SERVER_IDLE_CALLS = 256 }; /* freed call records kept */

/* A call to here that is being handled. */
typedef struct call {
  struct call *next; /* free list */
  peer *peer;
  uint32_t session; /* of the peer when it came; answers to an older one are dropped */
  uint32_t id;
  bool notify;
  task *task;
  timer deadline;  /* ends it, if the caller gave it a time */
  char method[40]; /* for messages; cut */
} call;

/* A request or notification came; in node_enter. `frame` points into the link's bytes. */
void server_request(lua_State *L, peer *peer, const frame *frame);
/* Dispatches what was held back. In a protected call or task. */
void server_open(lua_State *L, rpc *rpc);
/* The caller of the request `id` gave up. */
void server_cancel(peer *peer, uint32_t id);
/* The other end is gone: nobody waits for what is handled for it. */
void server_orphan(peer *peer);
/* Tells the callers of all that is held whom it waits for; see circle.h. */
void server_tell_held(rpc *rpc, const char *list);
/* Drops what was held for a peer, answers what is held when the node ends. */
void server_forget(rpc *rpc);
/* Answers with an error made without Lua. */
void server_refuse(peer *peer, uint32_t id, lp_status status, const char *text);
/* The peer of the call the running task handles, or NULL. */
peer *server_caller(lua_State *L);

#endif
