/* Calls of nodes from C: clients as lp_node, calls that wait for their answer in a record of
 * ours until a callback is told. Made in the name of the node "host" of the host's loop. */
#include <stdio.h>
#include <string.h>

#include "api/embed.h"
#include "base/clock.h"
#include "base/memory.h"
#include "rpc/client.h"
#include "rpc/methods.h"

/* ---- clients ---------------------------------------------------------------- */

/* Peers go with the node they belong to, which without memory may end before the engine does. */
static void let_go(lp_engine *engine, peer *peer) {
  if (embed_rpc(engine)) peer_unref(peer);
}

static peer *peer_of(const lp_node *node) {
  return node && embed_rpc(node->engine) ? node->peer : NULL;
}

lp_node *embed_node(lp_engine *engine, const char *key, const char *name) {
  rpc *rpc = embed_rpc(engine);
  lp_node *made = rpc ? mem_new(sizeof *made) : NULL;
  if (!made) return NULL;
  list_init(&made->link);
  made->name = mem_strdup(name);
  made->peer = peer_get(rpc, key, name);
  if (!made->name || !made->peer) {
    peer_unref(made->peer);
    mem_free(made->name);
    mem_free(made);
    return NULL;
  }
  made->engine = embed_ref(engine);
  list_push(&engine->nodes, &made->link);
  return made;
}

void lp_node_free(lp_node *node) {
  if (!node) return;
  list_remove(&node->link);
  if (node->peer) let_go(node->engine, node->peer);
  embed_unref(node->engine);
  mem_free(node->name);
  mem_free(node);
}

void embed_nodes_close(lp_engine *engine) {
  for (list *link; (link = list_pop(&engine->nodes));) {
    lp_node *node = list_entry(link, lp_node, link);
    let_go(engine, node->peer);
    node->peer = NULL;
  }
}

const char *lp_node_name(const lp_node *node) {
  return node ? node->name : NULL;
}

size_t lp_node_pending(const lp_node *node) {
  const peer *peer = peer_of(node);
  return peer ? peer->pending_count : 0;
}

lp_status lp_push_node(lp_values *values, const lp_node *node) {
  uint8_t bytes[3 + UINT8_MAX];
  if (!values || !node)
    return embed_fail(LP_INVALID_ARGUMENT, "lp_push_node: %s is NULL", values ? "node" : "values");
  const peer *peer = peer_of(node);
  if (!peer) return embed_fail(LP_FAILED_PRECONDITION, "lp_push_node: the engine is closed");
  size_t length = client_encode(bytes, sizeof bytes, peer);
  if (!length) return embed_fail(LP_INVALID_ARGUMENT, "lp_push_node: its name is too long");
  lp_reader reader = {.at = bytes, .end = bytes + length, .left = 1};
  return lp_push_next(values, &reader);
}

lp_status lp_read_node(lp_engine *engine, lp_reader *reader, lp_node **out) {
  char text[UINT8_MAX + 1];
  lp_status status = embed_check(engine, "lp_read_node");
  if (status != LP_OK) return status;
  if (!out || lp_read_kind(reader) != LP_CLIENT)
    return embed_fail(LP_INVALID_ARGUMENT, "lp_read_node: %s",
                      out ? "the next value is no client" : "out is NULL");
  *out = NULL;
  lp_reader behind = *reader;
  status = lp_read_skip(&behind);
  if (status != LP_OK) return status;
  size_t key = client_decode(reader->at, (size_t)(behind.at - reader->at), text);
  if (!key) return embed_fail(LP_DATA_LOSS, "lp_read_node: the client is damaged");
  *out = embed_node(engine, text, text + key + 1);
  if (!*out) return embed_fail(LP_RESOURCE_EXHAUSTED, "lp_read_node: out of memory");
  *reader = behind;
  return LP_OK;
}

/* ---- errors that come back --------------------------------------------------- */

/* A copy of what an error's map says; the texts are freed by error_fini. */
typedef struct remote_error {
  lp_error error;
  char *code, *message, *node, *traceback;
} remote_error;

static lp_status status_of(const char *code) {
  for (int status = LP_CANCELLED; status <= LP_UNAUTHENTICATED; status++)
    if (strcmp(lp_strerror((lp_status)status), code) == 0) return (lp_status)status;
  return LP_UNKNOWN;
}

static char *field(lp_reader map, const char *key) {
  lp_reader found = reader_field(map, key);
  return reader_copy_string(&found);
}

static void error_read(remote_error *out, const frame *frame) {
  lp_reader whole = {.at = frame->error, .end = frame->error + frame->error_length, .left = 1}, map;
  memset(out, 0, sizeof *out);
  if (lp_read_kind(&whole) == LP_MAP && lp_read_map(&whole, &map) == LP_OK) {
    out->code = field(map, "code");
    out->message = field(map, "message");
    out->node = field(map, "node");
    out->traceback = field(map, "traceback");
  } else {
    out->message = reader_copy_string(&whole); /* of a foreign server */
  }
  out->error.code = out->code ? out->code : "unknown";
  out->error.message = out->message ? out->message : "an error";
  out->error.node = out->node ? out->node : "";
  out->error.traceback = out->traceback ? out->traceback : "";
  out->error.status = status_of(out->error.code);
}

static void error_fini(remote_error *error) {
  mem_free(error->code);
  mem_free(error->message);
  mem_free(error->node);
  mem_free(error->traceback);
}

/* ---- calls ------------------------------------------------------------------ */

/* A call under way. */
typedef struct sent_call {
  list link; /* engine->failed, or alone */
  lp_engine *engine;
  lp_answer answer;
  void *user;
  lp_status status; /* of a failure that waits to be told */
  char *text;
} sent_call;

/* Words that never came, since there was no memory for them. */
static const char no_words[] = "the call failed, and memory was out";

static void sent_free(sent_call *sent) {
  list_remove(&sent->link);
  mem_free(sent->text);
  mem_free(sent);
}

void embed_tell_failed(lp_engine *engine) {
  for (list *link; (link = list_pop(&engine->failed));) {
    sent_call *sent = list_entry(link, sent_call, link);
    const char *words = sent->text ? sent->text : no_words;
    lp_error error = {sent->status, lp_strerror(sent->status), words, "", ""};
    lp_reader none = {0};
    if (sent->answer) sent->answer(sent->user, &error, &none);
    sent_free(sent);
  }
}

/* Answers are told at once. What fails from here is told at the end of the turn: its link is
 * just being taken apart, and the host may well call again from its callback. */
static void on_answer(void *owner, const frame *frame, lp_status status, const char *text) {
  sent_call *sent = owner;
  lp_reader results = {0};
  if (!frame) {
    sent->status = status;
    sent->text = mem_strdup(text);
    list_push(&sent->engine->failed, &sent->link);
    return;
  }
  if (sent->answer && frame->error) {
    remote_error failed;
    error_read(&failed, frame);
    sent->answer(sent->user, &failed.error, &results);
    error_fini(&failed);
  } else if (sent->answer) {
    results = reader_of_array(frame->body, frame->body_length);
    sent->answer(sent->user, NULL, &results);
  }
  sent_free(sent);
}

static lp_status send_call(lp_engine *engine, peer *peer, native_call *call, lp_answer answer,
                           void *user) {
  fault fault;
  sent_call *sent = mem_new(sizeof *sent);
  if (!sent) return embed_fail(LP_RESOURCE_EXHAUSTED, "no memory for a call");
  list_init(&sent->link);
  sent->engine = engine;
  sent->answer = answer;
  sent->user = user;
  call->answered = on_answer;
  call->owner = sent;
  lp_status status = native_send(peer, call, &fault);
  if (status == LP_OK) return LP_OK;
  sent_free(sent);
  return embed_fault(&fault);
}

/* What a call and a notification have in common. */
static lp_status prepare(const lp_node *node, const char *method, const lp_values *arguments,
                         const char *what, native_call *out) {
  if (!node) return embed_fail(LP_INVALID_ARGUMENT, "%s: the node is NULL", what);
  lp_status status = embed_check(node->engine, what);
  if (status == LP_OK) status = values_check(arguments, what);
  if (status != LP_OK) return status;
  if (!method || !*method)
    return embed_fail(LP_INVALID_ARGUMENT, "%s: the method is %s", what, method ? "\"\"" : "NULL");
  if (methods_reserved(method, strlen(method)))
    return embed_fail(LP_NOT_FOUND, "%s: %s: names that begin with lp. are the engine's", what,
                      method);
  if (!peer_of(node)) return embed_fail(LP_FAILED_PRECONDITION, "%s: the engine has ended", what);
  *out = (native_call){.method = method, .method_length = strlen(method), .due = CLOCK_NEVER};
  if (!arguments) return LP_OK;
  out->bytes = arguments->bytes.data;
  out->length = arguments->bytes.length;
  out->count = arguments->count;
  return LP_OK;
}

lp_status lp_node_call(lp_node *node, const char *method, const lp_values *arguments,
                       double timeout, lp_answer answer, void *user) {
  native_call call;
  lp_status status = prepare(node, method, arguments, "lp_node_call", &call);
  if (status == LP_OK) status = embed_check_seconds(timeout, false, "lp_node_call: timeout");
  if (status != LP_OK) return status;
  if (timeout > 0) call.due = embed_deadline(timeout);
  return send_call(node->engine, node->peer, &call, answer, user);
}

lp_status lp_node_notify(lp_node *node, const char *method, const lp_values *arguments) {
  native_call call;
  fault fault;
  lp_status status = prepare(node, method, arguments, "lp_node_notify", &call);
  if (status != LP_OK) return status;
  status = native_send(node->peer, &call, &fault);
  return status == LP_OK ? LP_OK : embed_fault(&fault);
}

/* ---- waiting for an answer -------------------------------------------------- */

typedef struct waited {
  bool done;
  lp_status status;
  char text[FAULT_TEXT];
  lp_values *results;
} waited;

static void on_waited(void *user, const lp_error *error, lp_reader *results) {
  waited *call = user;
  call->done = true;
  call->status = error ? error->status : LP_OK;
  if (error) snprintf(call->text, sizeof call->text, "%s", error->message);
  while (!error && call->results && lp_read_left(results) > 0 && call->status == LP_OK) {
    call->status = lp_push_next(call->results, results);
    if (call->status != LP_OK) snprintf(call->text, sizeof call->text, "%s", lp_message());
  }
}

static bool is_waited(void *subject) {
  return ((waited *)subject)->done;
}

static lp_status wait_call(lp_engine *engine, peer *peer, native_call *call, lp_values *results) {
  waited waited = {.results = results};
  lp_values_clear(results);
  lp_status status = send_call(engine, peer, call, on_waited, &waited);
  if (status != LP_OK) return status;
  embed_turn_until(engine, is_waited, &waited, CLOCK_NEVER);
  return waited.status == LP_OK ? LP_OK : embed_fail(waited.status, "%s", waited.text);
}

lp_status lp_node_call_wait(lp_node *node, const char *method, const lp_values *arguments,
                            double timeout, lp_values *results) {
  native_call call;
  lp_status status = prepare(node, method, arguments, "lp_node_call_wait", &call);
  if (status == LP_OK) status = embed_check_wait(node->engine, "lp_node_call_wait");
  if (status == LP_OK) status = embed_check_seconds(timeout, false, "lp_node_call_wait: timeout");
  if (status != LP_OK) return status;
  if (timeout > 0) call.due = embed_deadline(timeout);
  return wait_call(node->engine, node->peer, &call, results);
}

/* ---- the engine's own nodes -------------------------------------------------- */

/* The peer behind `key`; a reference for the caller. */
static peer *own_peer(lp_engine *engine, const char *key) {
  rpc *rpc = embed_rpc(engine);
  peer *found = rpc ? peer_get(rpc, key, key) : NULL;
  if (!found) embed_fail(LP_RESOURCE_EXHAUSTED, "no memory for a call");
  return found;
}

static native_call own_call(const char *method, const lp_values *arguments) {
  native_call call = {.method = method, .method_length = strlen(method), .due = CLOCK_NEVER};
  if (!arguments) return call;
  call.bytes = arguments->bytes.data;
  call.length = arguments->bytes.length;
  call.count = arguments->count;
  return call;
}

lp_status embed_ask(lp_engine *engine, const char *key, const char *method,
                    const lp_values *arguments, double timeout, lp_values *results) {
  peer *peer = own_peer(engine, key);
  if (!peer) return LP_RESOURCE_EXHAUSTED;
  native_call call = own_call(method, arguments);
  if (timeout > 0) call.due = embed_deadline(timeout);
  embed_bound(engine, call.due);
  lp_status status = wait_call(engine, peer, &call, results);
  embed_bound(engine, CLOCK_NEVER);
  let_go(engine, peer);
  node *main = status == LP_DEADLINE_EXCEEDED && timeout > 0
                   ? loop_find_node(engine->loop, engine->main)
                   : NULL;
  if (main) node_interrupt(main, false);
  return status;
}

lp_status embed_send(lp_engine *engine, const char *key, const char *method,
                     const lp_values *arguments, lp_answer answer, void *user) {
  peer *peer = own_peer(engine, key);
  if (!peer) return LP_RESOURCE_EXHAUSTED;
  native_call call = own_call(method, arguments);
  lp_status status = send_call(engine, peer, &call, answer, user);
  let_go(engine, peer);
  return status;
}
