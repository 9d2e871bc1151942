/* How a peer gets its link; see peer.h. Where a target is, the engine's directory knows for
 * nodes of this process; for others the connector, a Lua function, finds it out. */
#include <lauxlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "net/listener.h"
#include "rpc/client.h"
#include "rpc/connecting.h"
#include "rpc/control.h"
#include "rpc/health.h"
#include "rpc/peer_faults.h"
#include "rpc/peer_silence.h"
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
  health_greet(made);
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

/* ---- asking ----------------------------------------------------------------- */

bool peer_is_address(const peer *peer) {
  return peer->target &&
         (strncmp(peer->target, "unix:", 5) == 0 || strncmp(peer->target, "tcp:", 4) == 0);
}

void peer_unreached(const peer *peer, const char *why, char *out, size_t size) {
  static const char cannot[] = "cannot connect to "; /* the stream's words, with the address */
  if (peer_is_address(peer) && strncmp(why, cannot, sizeof cannot - 1) == 0)
    snprintf(out, size, "failed to connect to %s", why + sizeof cannot - 1);
  else
    snprintf(out, size, "failed to connect to %s%s: %s", peer_is_address(peer) ? "" : "node ",
             peer->name, why);
}

/* The connector has done what it could; that may have been nothing. */
static void asked(peer *peer, const char *why) {
  connecting *self = peer->connecting;
  peer->asking--;
  bool left = self && peer->asking == 0 && !link_is_open(&peer->wire) &&
              (peer->state == PEER_CONNECTING ||
               (peer->state == PEER_WAITING && self->tries.retry_at == CLOCK_NEVER));
  if (left) {
    peer->state = PEER_CONNECTING;
    connecting_failed(peer, why);
  }
  peer_unref(peer);
}

static void asking_done(lua_State *L, task *task, bool ok, int first) {
  char text[FAULT_TEXT];
  snprintf(text, sizeof text, "%s", ok ? "it was not found out where it is" : "an error");
  if (!ok && lua_type(L, first) == LUA_TTABLE) {
    lua_pushliteral(L, "message");
    lua_rawget(L, first);
    if (lua_type(L, -1) == LUA_TSTRING) snprintf(text, sizeof text, "%s", lua_tostring(L, -1));
  }
  peer *peer = task->context;
  task->context = NULL; /* nothing raises from here */
  asked(peer, text);
}

static void asking_lost(task *task, lp_status status, const char *text) {
  (void)status;
  if (task->context) asked(task->context, text);
}

static const task_kind asking_kind = {.done = asking_done, .lost = asking_lost};

/* Starts a task that has the Lua side find out where the target is; its answer comes as
 * peer_dial or a refusal. */
static int start_asking(lua_State *L) {
  peer *peer = lua_touserdata(L, 1);
  lua_rawgeti(L, LUA_REGISTRYINDEX, peer->rpc->connector);
  client_push(L, peer_ref(peer));
  lua_pushstring(L, peer->target);
  lua_pushboolean(L, peer->again);
  task *made = task_new(L, &asking_kind, NULL);
  if (!lua_checkstack(made->co, 4)) {
    task_discard(made);
    return luaL_error(L, "no memory for a task");
  }
  lua_xmove(L, made->co, 4);
  made->context = peer_ref(peer);
  peer->asking++;
  task_start(made, 3);
  return 0;
}

static bool ask(peer *peer, fault *fault) {
  if (peer->rpc->connector == LUA_NOREF) {
    fault_set(fault, LP_NOT_FOUND, "unknown node %s", peer->name);
    return false;
  }
  peer->state = PEER_CONNECTING;
  return node_enter(peer->rpc->node, start_asking, peer, fault);
}

/* When the address does not answer, though it was right a moment ago: its node is ending, and
 * the connector is asked once more, for how. */
static bool ask_again(peer *peer) {
  fault ignored;
  if (peer->again || peer_is_address(peer) || !peer->connecting) return false;
  peer->again = true;
  link_close(&peer->wire);
  peer_reset_splitter(peer);
  return ask(peer, &ignored);
}

void peer_missed(peer *peer, lp_status status, const char *why) {
  if (ask_again(peer)) return;
  if (status == LP_UNAVAILABLE)
    connecting_failed(peer, why);
  else
    peer_down(peer, status, why);
}

/* ---- a node of this process ------------------------------------------------- */

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

static bool connect_here(peer *peer, const place *place, fault *fault) {
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
  if (mailbox_push(place->box, MAILBOX_MAIL, &offered->message)) {
    peer->state = PEER_OPEN;
    peer_faults_link(peer);
    peer_grant(peer, place->terms);
    peer->trouble = PEER_WELL;
    peer->again = false;
    peer_set_end(peer, LP_OK, NULL);
    return true;
  }
  offer_drop(&offered->message);
  link_close(&peer->wire);
  fault_set(fault, LP_UNAVAILABLE, "its loop has ended");
  return false;
}

/* The same when calls wait already: these go ahead. */
static void dial_here(peer *peer, const place *place) {
  fault fault;
  if (!connect_here(peer, place, &fault))
    peer_missed(peer, fault.status, fault.text);
  else if (!connecting_opened(peer, &fault))
    peer_down(peer, fault.status, fault.text);
}

/* ---- trying ----------------------------------------------------------------- */

static void dial_stream(peer *peer, const char *text) {
  address address;
  fault fault;
  loop *loop = peer->rpc->node->loop;
  if (address_parse(text, &address, &fault) == LP_OK) {
    peer->state = PEER_CONNECTING;
    /* A node that computes greets late: only what may be no engine at all is given a time. */
    connecting_tried(peer, peer_is_address(peer));
    peer->wire.stream = stream_connect(loop->poller, &loop->scratch, &address, SOCKET_BUFFER_BYTES,
                                       &peer_events, peer, &fault);
    peer_faults_link(peer);
    if (peer->wire.stream) return;
  }
  peer_missed(peer, fault.status, fault.text);
}

void peer_dial(peer *peer, const char *text) {
  bool wanted = peer->state == PEER_CONNECTING || peer->state == PEER_WAITING;
  if (!wanted || !peer->connecting || link_is_open(&peer->wire)) return;
  peer->state = PEER_CONNECTING;
  if (strncmp(text, "inproc:", 7) != 0) {
    dial_stream(peer, text);
    return;
  }
  place place = {0};
  fault fault;
  if (engine_find(peer->rpc->node->engine, text + 7, &place, &fault) == LP_OK)
    dial_here(peer, &place);
  else
    peer_missed(peer, LP_UNAVAILABLE, fault.text);
  mailbox_unref(place.box);
}

void peer_try(peer *peer) {
  place place = {0};
  fault fault;
  peer->state = PEER_CONNECTING;
  connecting_tried(peer, false);
  if (peer_is_address(peer)) {
    dial_stream(peer, peer->target);
    return;
  }
  lp_status status = engine_find(peer->rpc->node->engine, peer->target, &place, &fault);
  if (status == LP_OK)
    dial_here(peer, &place);
  else if (status != LP_NOT_FOUND || !ask(peer, &fault))
    peer_down(peer, fault.status, fault.text);
  mailbox_unref(place.box);
}

/* Most often the node is right here, and nothing has to wait. */
static bool connect_idle(peer *peer, bool hasty, fault *fault) {
  place place = {0};
  struct fault found;
  lp_status status = LP_NOT_FOUND;
  if (!peer_is_address(peer))
    status = engine_find(peer->rpc->node->engine, peer->target, &place, &found);
  bool connected = status == LP_OK && connect_here(peer, &place, &found);
  mailbox_unref(place.box);
  if (connected) return true;
  if (status != LP_NOT_FOUND) {
    peer->trouble = PEER_GONE;
    fault_set(fault, found.status, "node %s is unavailable: %s", peer->name, found.text);
    return false;
  }
  if (!peer_is_address(peer) && peer->rpc->connector == LUA_NOREF) {
    fault_set(fault, LP_NOT_FOUND, "unknown node %s", peer->name);
    return false;
  }
  if (!connecting_begin(peer)) {
    fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory to connect to %s", peer->name);
    return false;
  }
  peer->connecting->about_to = !hasty;
  peer_try(peer);
  return true;
}

/* While nobody answers, a call that does not wait has a try of its own, but does not hammer. */
static void connect_hasty(peer *peer) {
  bool just = clock_now() - peer->connecting->last_try < RECONNECT_FIRST_NS;
  if (peer->asking == 0 && !just) peer_try(peer);
}

bool peer_connect(peer *peer, bool hasty, fault *fault) {
  if (hasty && (peer_is_silent(peer, fault) || health_is_bad(peer, fault))) return false;
  if (peer->state == PEER_CLOSED) {
    fault_set(fault, LP_UNAVAILABLE, "%s", peer->end_text ? peer->end_text : "the link was closed");
    return false;
  }
  if (peer->state == PEER_IDLE && !connect_idle(peer, hasty, fault)) return false;
  if (peer->state == PEER_WAITING && hasty) connect_hasty(peer);
  if (peer->connecting) peer->connecting->about_to = false;
  if (peer->state != PEER_IDLE && !(peer->state == PEER_WAITING && hasty)) return true;
  /* Tried and failed at once. */
  fault_set(fault, peer->end_status, "%s", peer->end_text ? peer->end_text : "out of memory");
  return false;
}

const char *peer_state_name(peer *peer) {
  static const char *const names[] = {"idle",  "connecting", "connecting", "transient_failure",
                                      "ready", "shutdown"};
  static const char *const idle[] = {"idle", "transient_failure", "shutdown"};
  place place = {0};
  fault ignored;
  if (peer->state == PEER_OPEN && (peer_is_silent(peer, &ignored) || peer->unhealthy))
    return "transient_failure";
  if (peer->state != PEER_IDLE) return names[peer->state];
  lp_status status = engine_find(peer->rpc->node->engine, peer->target, &place, &ignored);
  mailbox_unref(place.box);
  return status == LP_UNAVAILABLE ? "shutdown" : idle[peer->trouble];
}
