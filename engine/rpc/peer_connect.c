/* How a peer gets its link; see peer.h. Where a target is, the engine's directory knows for
 * nodes of this process; for others the connector, a Lua function, finds it out. */
#include <lauxlib.h>
#include <stdio.h>
#include <unistd.h>

#include "base/memory.h"
#include "net/listener.h"
#include "rpc/client.h"
#include "rpc/control.h"
#include "rpc/peer.h"
#include "rpc/peer_faults.h"
#include "runtime/engine.h"

enum { SOCKET_BUFFER_BYTES = 1 << 20 };

/* ---- the other side dialled ------------------------------------------------- */

void peer_accept_pipe(rpc *rpc, pipe_end *end, const char *name, terms terms) {
  peer *made = peer_new(rpc, NULL, name);
  if (!made) {
    pipe_free(end);
    return;
  }
  made->accepted = true;
  made->control = control_link(rpc, name);
  made->state = PEER_OPEN;
  made->wire.pipe = end;
  peer_faults_link(made);
  peer_grant(made, terms);
  pipe_attach(end, &peer_events, made);
}

void peer_accept_fd(rpc *rpc, int fd) {
  bool control = control_link(rpc, NULL);
  /* The folder of the socket is closed to others already; who steers a run has to be its user. */
  peer *made = control && !listener_same_user(fd) ? NULL : peer_new(rpc, NULL, "a client");
  if (!made) {
    close(fd);
    return;
  }
  loop *loop = rpc->node->loop;
  made->accepted = true;
  made->control = control;
  made->foreign = true; /* until it greets */
  made->splitter.wrapped = false;
  made->state = PEER_OPEN;
  made->wire.stream =
      stream_open(loop->poller, &loop->scratch, fd, SOCKET_BUFFER_BYTES, &peer_events, made);
  peer_faults_link(made);
  if (!made->wire.stream) peer_down(made, LP_RESOURCE_EXHAUSTED, "out of memory");
}

/* ---- dialling --------------------------------------------------------------- */

/* Has the Lua side find out where the target is; its answer comes as peer_dial or a failure. */
static int ask_connector(lua_State *L) {
  peer *peer = lua_touserdata(L, 1);
  lua_rawgeti(L, LUA_REGISTRYINDEX, peer->rpc->connector);
  client_push(L, peer_ref(peer));
  lua_pushstring(L, peer->target);
  lua_pushboolean(L, peer->again);
  rpc_spawn(L, 3);
  return 0;
}

bool peer_ask_again(peer *peer) {
  bool dialled = peer->state == PEER_HELLO || peer->state == PEER_CONNECTING;
  if (!dialled || !peer->target || peer->again || peer->rpc->connector == LUA_NOREF) return false;
  peer->again = true;
  link_close(&peer->wire);
  peer_reset_splitter(peer);
  peer->state = PEER_CONNECTING;
  return node_enter(peer->rpc->node, ask_connector, peer, NULL);
}

/* What two loops of one process hand over: the far end of a fresh pipe. */
typedef struct offer {
  message message;
  uint64_t node;
  pipe_end *end;
  terms terms; /* of the node that dials */
  char from[64];
} offer;

static void offer_drop(message *carried) {
  offer *dropped = (offer *)carried;
  pipe_free(dropped->end);
  mem_free(dropped);
}

static void offer_run(message *carried, void *at) {
  offer *offered = (offer *)carried;
  node *node = loop_find_node(at, offered->node);
  if (node && node->upper) {
    peer_accept_pipe(node->upper, offered->end, offered->from, offered->terms);
    offered->end = NULL;
  }
  offer_drop(carried);
}

/* Connects to a node of this process. */
static bool connect_here(peer *peer, place *place, fault *fault) {
  node *node = peer->rpc->node;
  offer *offered = mem_new(sizeof *offered);
  if (!offered || !pipe_new(node->loop->box, place->box, &peer->wire.pipe, &offered->end)) {
    mem_free(offered);
    fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for a link to %s", peer->name);
    return false;
  }
  offered->message = (message){.run = offer_run, .drop = offer_drop};
  offered->node = place->id;
  offered->terms = peer->rpc->terms;
  snprintf(offered->from, sizeof offered->from, "%s", node->name);
  pipe_attach(peer->wire.pipe, &peer_events, peer);
  peer_faults_link(peer);
  peer->state = PEER_OPEN;
  peer_grant(peer, place->terms);
  if (mailbox_push(place->box, MAILBOX_MAIL, &offered->message)) return true;
  offer_drop(&offered->message);
  peer->state = PEER_IDLE;
  link_close(&peer->wire);
  fault_set(fault, LP_UNAVAILABLE, "its loop has ended");
  return false;
}

static bool connect_elsewhere(lua_State *L, peer *peer, fault *fault) {
  if (peer->rpc->connector == LUA_NOREF) {
    fault_set(fault, LP_NOT_FOUND, "unknown node %s", peer->name);
    return false;
  }
  lua_pushcfunction(L, ask_connector);
  lua_pushlightuserdata(L, peer);
  lua_call(L, 1, 0);
  peer->state = PEER_CONNECTING; /* nothing can raise any more */
  return true;
}

bool peer_connect(lua_State *L, peer *peer, fault *fault) {
  if (peer->state == PEER_CLOSED) {
    fault_set(fault, LP_UNAVAILABLE, "%s", peer->end_text ? peer->end_text : "the link was closed");
    return false;
  }
  if (peer->state != PEER_IDLE) return true;
  mem_free(peer->end_text);
  peer->end_text = NULL;
  place place = {0};
  struct fault ended;
  lp_status status = engine_find(peer->rpc->node->engine, peer->target, &place, &ended);
  if (status == LP_NOT_FOUND) return connect_elsewhere(L, peer, fault);
  if (status != LP_OK) {
    fault_set(fault, status, "node %s is unavailable: %s", peer->name, ended.text);
    return false;
  }
  bool connected = connect_here(peer, &place, &ended);
  mailbox_unref(place.box);
  if (!connected)
    fault_set(fault, ended.status, "node %s is unavailable: %s", peer->name, ended.text);
  return connected;
}

/* The target is in this process after all: its start had not come round to it when it was
 * called first. What was written meanwhile goes ahead. */
static bool dial_here(peer *peer, const char *key, fault *fault) {
  place place = {0};
  if (engine_find(peer->rpc->node->engine, key, &place, fault) != LP_OK) return false;
  bool connected = connect_here(peer, &place, fault) && peer_write_early(peer, fault);
  mailbox_unref(place.box);
  if (!connected) peer->state = PEER_CONNECTING; /* for peer_down, which fails the calls */
  return connected;
}

bool peer_dial(peer *peer, const char *text, fault *fault) {
  address address;
  if (address_parse(text, &address, fault) != LP_OK) return false;
  if (address.kind == ADDRESS_INPROC) return dial_here(peer, address.name, fault);
  loop *loop = peer->rpc->node->loop;
  peer->state = PEER_CONNECTING;
  peer->wire.stream = stream_connect(loop->poller, &loop->scratch, &address, SOCKET_BUFFER_BYTES,
                                     &peer_events, peer, fault);
  peer_faults_link(peer);
  return peer->wire.stream != NULL;
}
