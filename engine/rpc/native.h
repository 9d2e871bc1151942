/* Calls made and answered in C, without the node's interpreter: what an embedding program's
 * nodes are made of (api/embed_*.c), and later the engine's own services. Values are whole
 * MessagePack: the body of a call is an array of its arguments, that of an answer an array
 * of its results. */
#ifndef LP_RPC_NATIVE_H
#define LP_RPC_NATIVE_H

#include "rpc/server.h"

/* ---- answering -------------------------------------------------------------- */

/* The body of a node whose calls are answered in C (rpc->native). */
typedef struct native_body {
  /* A call came, in node_enter. It is over with one native_return or native_fail, now or later;
   * until then call->holder (a place that points to it) is cleared when nobody waits any more
   * and it is gone. `frame` is valid until this returns. */
  void (*dispatch)(void *owner, call *call, const frame *frame);
  void *owner;
} native_body;

/* Hands a request to the node's native body. */
void native_dispatch(peer *peer, const frame *frame, int64_t due);
/* Answers with `count` results, the values at `bytes`, and ends the call. Not LP_OK: they could
 * not be sent (memory, size), which the caller was told. */
lp_status native_return(call *call, const uint8_t *bytes, size_t length, size_t count,
                        fault *fault);
/* Answers with an error and ends the call. */
void native_fail(call *call, lp_status status, const char *text);

/* ---- calling ---------------------------------------------------------------- */

/* Where the answer to a call made in C goes: `frame` is the response, or NULL and a status with
 * its words. On the node's thread; called once. */
typedef void (*native_answered)(void *owner, const frame *frame, lp_status status,
                                const char *text);

typedef struct native_call {
  const char *method;
  size_t method_length;
  const uint8_t *bytes; /* `count` arguments */
  size_t length, count;
  int64_t due;              /* CLOCK_NEVER: no deadline */
  bool hasty;               /* does not wait for a server that is not there yet */
  native_answered answered; /* NULL: a notification */
  void *owner;
} native_call;

/* Sends it over the peer, which is connected if need be. On failure nobody is called. */
lp_status native_send(peer *peer, const native_call *call, fault *fault);

/* For client_answer.c: the answer, or what comes in its place, to a pending call of C. */
void native_settle(pending *pending, const frame *frame, lp_status status, const char *text);

#endif
