/* Calls between nodes: what a node needs to serve calls and to make them.
 *
 * A peer is one end of a conversation: a link, the calls under way on it, and the credit
 * left. A client (client.c) is a script's hold on a peer; the server side (server.c) turns
 * requests into tasks. One message goes: client -> peer -> link | link -> peer -> server. */
#ifndef LP_RPC_RPC_H
#define LP_RPC_RPC_H

#include <lauxlib.h>
#include <lua.h>

#include "net/link.h"
#include "runtime/node.h"
#include "runtime/task.h"
#include "wire/codec.h"
#include "wire/frame.h"

typedef struct peer peer;
typedef struct future future;

enum {
  RPC_STANDARD = 10,
  RPC_WINDOW_BYTES = 64 << 20, /* bytes of those; another may begin while any is left */
  RPC_WINDOW = 1024,           /* requests and notifications under way in one direction */
  RPC_CREDIT_STEP = 256,       /* notifications consumed before credit is returned */
  RPC_IDLE_CALLS = 256         /* freed call records kept */
};

/* A call from here that waits for its answer: by a task or by a future. */
typedef struct pending {
  struct pending *next; /* free list */
  peer *peer;
  uint32_t id;
  size_t bytes; /* credit that comes back with the answer */
  task *task;   /* NULL: a future's */
  int future;   /* registry reference of the future's userdata */
  timer timer;  /* a future's deadline */
} pending;

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

/* The rpc layer's part of a node (node->upper). */
typedef struct rpc {
  node *node;
  codec codec;
  list peers;                         /* by peer.link */
  bool serving;                       /* requests are dispatched; before that they are held */
  const void *client_metatable;       /* lua_topointer of it: recognises clients */
  const void *standard[RPC_STANDARD]; /* the same of tables whose functions are no methods */
  int instance, expose, constructor;  /* registry references; LUA_NOREF: none */
  struct held *held, **held_end;      /* requests that came before serving */
  pending *free_pending;
  call *free_calls;
  int free_call_count;
  int on_stop, connector; /* registry references of Lua functions */
  pending *answering;     /* whose answer is being decoded; off its peer's table already */
  bool stop_asked;        /* perhaps before on_stop was known */
  uint64_t expired;       /* requests whose time was over before they ran */
  bool look_for_lost;     /* a spawned task failed: see whether anybody holds its future */
  list listeners;         /* by listening.link */
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
bool rpc_open(node *node, fault *fault);

/* ---- peers (peer.c) --------------------------------------------------------- */

typedef enum peer_state {
  PEER_IDLE,       /* no link; the next call connects */
  PEER_CONNECTING, /* frames gather in `early` */
  PEER_HELLO,      /* link up, greeting not answered yet */
  PEER_OPEN,
  PEER_CLOSED /* for good */
} peer_state;

struct peer {
  list link; /* rpc->peers */
  rpc *rpc;
  int references;
  peer_state state;
  uint32_t session; /* counts links this peer has had */
  struct link wire;
  frame_splitter splitter;
  flushable flushable;
  bool accepted; /* the other side dialled */
  bool foreign;  /* speaks bare MessagePack-RPC */
  bool broken;   /* memory was out for something the other end relies on */
  buffer early;
  size_t frame_start; /* of a frame being written, + 1; 0: none */
  char *target;       /* key of a node, or address; NULL: accepted */
  char *name;         /* of the node at the other end, for people */
  pending **slots;    /* by id & (size - 1) */
  uint32_t slot_count, pending_count, next_id;
  uint32_t window; /* requests and notifications it still takes */
  int64_t window_bytes;
  size_t consumed_bytes;
  uint32_t consumed; /* notifications of its handled since the last credit */
  list waiters;      /* tasks waiting for credit, by task.link */
  lp_status end_status;
  char *end_text; /* why it is not open; NULL: never was */
  int on_close;   /* registry reference of a Lua function, or LUA_NOREF */
};

/* The peer for `target` (a node's key or an address), shared by all clients of this node;
 * a reference for the caller. NULL: memory. */
peer *peer_get(rpc *rpc, const char *target, const char *name);
peer *peer_ref(peer *peer);
void peer_unref(peer *peer); /* accepts NULL */
/* Takes over an end of a pipe or a connected descriptor whose other side dialled. */
void peer_accept_pipe(rpc *rpc, pipe_end *end, const char *name);
void peer_accept_fd(rpc *rpc, int fd);
/* Begins to connect when idle. False: unavailable, fault says why. May run Lua: raises. */
bool peer_connect(lua_State *L, peer *peer, fault *fault);
/* Connects an idle or connecting peer to an address (the connector's answer). */
bool peer_dial(peer *peer, const char *address, fault *fault);
/* On a link that has just opened: what was written before, while it was connecting. */
bool peer_write_early(peer *peer, fault *fault);
/* Fails every pending call and closes the link; a peer with a target may be used again. */
void peer_down(peer *peer, lp_status status, const char *text);
/* Memory was out for an answer or for credit: rather than have the other end wait for ever,
 * the link is taken down at the end of the turn. */
void peer_break(peer *peer);

/* Begins a frame; NULL when memory is out. frame_write_end or frame_write_undo follows. */
buffer *peer_write_begin(peer *peer, size_t *start);
void peer_write_end(peer *peer, size_t start);
void peer_write_undo(peer *peer, size_t start);

/* A free id, entered as pending; NULL when memory is out. */
pending *pending_new(peer *peer);
/* Forgets it: an answer that still comes is dropped. */
void pending_free(pending *pending);
/* The first half of that: off the peer's table, no timer; and the second. */
void pending_detach(pending *pending);
void pending_recycle(pending *pending);

/* ---- server (server.c) ------------------------------------------------------ */

/* Names that begin with "lp." are the engine's. This one every node answers, with an
 * array of the names that can be called. */
#define SERVER_METHODS "lp.methods"

/* A request or notification came; in node_enter. `frame` points into the link's bytes. */
void server_request(lua_State *L, peer *peer, const frame *frame);
/* Dispatches what was held back. In a protected call or task. */
void server_open(lua_State *L, rpc *rpc);
/* The caller of the request `id` gave up. */
void server_cancel(peer *peer, uint32_t id);
/* The other end is gone: nobody waits for what is handled for it. */
void server_orphan(peer *peer);
/* Drops what was held for a peer, answers what is held when the node ends. */
void server_forget(rpc *rpc);
/* Answers with an error made without Lua. */
void server_refuse(peer *peer, uint32_t id, lp_status status, const char *text);
/* Notes which tables are standard libraries; once, after they were opened. May raise. */
void server_note_standard(lua_State *L, rpc *rpc);
/* Pushes the function a call of `method` runs and its self; false: nothing of that name. */
bool server_find(lua_State *L, rpc *rpc, const char *method, size_t length);
/* Pushes the names that can be called, an array. */
void server_list(lua_State *L, rpc *rpc);
/* The peer of the call the running task handles, or NULL. */
peer *server_caller(lua_State *L);

/* ---- answers ---------------------------------------------------------------- */

/* A response came for `pending`; in node_enter, in the main state. When it raises,
 * rpc->answering is left for client_lose. */
void client_answer(lua_State *L, pending *pending, const frame *frame);
/* The call cannot be answered any more. As client_answer. */
void client_fail(lua_State *L, pending *pending, lp_status status, const char *text);
/* Memory was out for the answer of rpc->answering, or of `begun` (may be NULL) when it did not
 * come to that: the caller is told, without making anything. */
void client_lose(rpc *rpc, pending *begun);
/* The deadline of a future's call has passed; from a timer. */
void client_expire(pending *pending);

/* ---- clients (client.c) ----------------------------------------------------- */

/* Opens clients and futures in a state; pushes nothing. May raise. */
void client_open(lua_State *L);
/* Pushes a client of `peer` (takes over the caller's reference, also when it raises). */
void client_push(lua_State *L, peer *peer);
peer *client_peer(lua_State *L, int index); /* NULL: not a client */
extern const luaL_Reg client_functions[];
extern const codec_hooks client_codec_hooks;

/* ---- futures (future.c) ----------------------------------------------------- */

void future_open(lua_State *L);
/* Pushes a pending future. */
future *future_push(lua_State *L);
future *future_at(lua_State *L, int index); /* NULL: not one */
/* Settles the future at `index` with the `count` values on top (ok) or the error on top;
 * pops them. Does nothing when it is settled already. */
void future_settle(lua_State *L, int index, bool ok, int count);
/* Which call it stands for, so that cancel can reach it. */
void future_attach(future *future, pending *pending);
void future_attach_task(future *future, task *task);
/* What it stands for was lost: settles without running Lua. `text` is static. */
void future_abandon(node *node, future *future, lp_status status, const char *text);
extern const luaL_Reg future_functions[];

/* Errors on the wire (remote.c): one MessagePack map. */
/* Pushes the table that goes out for the lp.Error (or string) at `index`. May raise, so it
 * comes before a frame is begun. */
void remote_prepare(lua_State *L, int index, const rpc *rpc, const char *method);
/* Appends that table (on top); never fails but for memory (false). */
bool remote_write(lua_State *L, const rpc *rpc, buffer *out);
bool remote_write_plain(const rpc *rpc, lp_status status, const char *text, buffer *out);
/* Pushes the error in these bytes as an lp.Error. */
void remote_read(lua_State *L, rpc *rpc, const uint8_t *data, size_t length);

/* The node failed with the lp.Error at the top of L: it is closed, the engine told. */
void node_fail(lua_State *L);

#endif
