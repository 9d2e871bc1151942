/* What a peer has while it has no link and somebody wants it to: the calls that wait for one
 * (early.h), when to try again (reconnect.h), and a timer. How a try is made is
 * peer_connect.c's business. */
#ifndef LP_RPC_CONNECTING_H
#define LP_RPC_CONNECTING_H

#include "rpc/early.h"
#include "rpc/peer.h"
#include "rpc/reconnect.h"
#include "runtime/timer.h"

typedef struct connecting {
  peer *peer; /* a reference */
  early early;
  reconnect tries;
  timer timer;
  int64_t last_try;
  bool about_to; /* a call that waits is about to be added */
} connecting;

/* Begins to want a link. False: memory is out. */
bool connecting_begin(peer *peer);
/* Nobody wants one any more, or there is one. Harmless when nothing was begun. */
void connecting_end(peer *peer);
/* Sends what waited on the link that is open now, and ends. False: memory is out. */
bool connecting_opened(peer *peer, fault *fault);

/* The frame from `start`, written to the early bytes, is `call`, or a notification (NULL), that
 * waits for a server that is not there yet, or not. False: memory is out, and the frame is to
 * be taken back. */
bool connecting_add(peer *peer, size_t start, const pending *call, bool waits);
/* Takes back a call that was given up. False: it is not here. */
bool connecting_drop(peer *peer, const pending *call);
/* Does this call wait for a link? */
bool connecting_has(const peer *peer, const pending *call);
/* Before a link that broke is closed: takes over what had not begun to be sent. True: something
 * was, so a new link is wanted. */
bool connecting_rescue(peer *peer);
/* Takes the credit of what was rescued from the next link's. */
void connecting_charge(peer *peer);

/* A try is being made; `greets`: whoever is there has to greet in time. */
void connecting_tried(peer *peer, bool greets);
/* A try came to nothing, and another may not: calls that do not wait for the server fail, the
 * others wait for the next try. Does nothing unless one is being made. */
void connecting_failed(peer *peer, const char *why);
/* The same, but the next try is made by a connector that knows when there is something to try.
 * False: nobody waits. */
bool connecting_watched(peer *peer, const char *why);
/* All is over: what was not sent is told in the log, as far as nobody waits for its answer. */
void connecting_lost(peer *peer, const char *why);

#endif
