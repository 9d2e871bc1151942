/* The engine's own small messages: the greeting of two engines, credit, cancelling, farewell.
 * Bodies are read and written here without Lua; docs/wire.md lists their bytes. */
#ifndef LP_RPC_HELLO_H
#define LP_RPC_HELLO_H

#include "rpc/peer.h"
#include "wire/token.h"

#define HELLO_METHOD  "lp.hello"
#define CREDIT_METHOD "lp.credit"
#define CANCEL_METHOD "lp.cancel"
#define BYE_METHOD    "lp.bye"
enum { HELLO_VERSION = 1 };

/* The dialling side: asks, then reads the answer; until it came nothing else is sent. */
bool hello_send(peer *peer); /* false: memory is out */
lp_status hello_answered(peer *peer, const frame *frame, fault *fault);
/* The other side: answers and speaks wrapped frames from then on. */
lp_status hello_asked(peer *peer, const frame *frame, fault *fault);

/* Notifications; nothing to a foreign peer. Credit that finds no memory breaks the link, the
 * others are then not sent. */
void hello_credit(peer *peer, uint32_t count, size_t bytes);
/* The last words of a node that ends: how, so that callers can be told. */
void hello_bye(peer *peer, const char *text);
/* Tells the other side that nobody waits for the answer to `id` any more. */
void hello_cancel(peer *peer, uint32_t id);
/* Tells the other side whether this node is well. */
void hello_health(peer *peer, bool healthy);
/* Tells the other side that its request `id` waits here, and for whom; see circle.h. */
void hello_held(peer *peer, uint32_t id, const char *list);

/* The meta element of a request: an array whose first element is the time the caller has
 * left, in microseconds. false: memory. hello_time gives it in ns, CLOCK_NEVER: none. */
#define HELLO_MOST_US (INT64_MAX / 2000)
bool hello_put_meta(buffer *out, int64_t left_ns);
int64_t hello_time(const frame *frame);
/* As hello_put_meta, into room for HELLO_META_MAX bytes; where it ends. */
enum { HELLO_META_MAX = 10 };
static inline uint8_t *hello_put_time(uint8_t *at, int64_t left_ns) {
  return token_put_integer(token_put_array(at, 1), left_ns > 0 ? (left_ns + 999) / 1000 : 0);
}

/* The first element of a params array as an id, 0: it is none; or as text, cut to `size`
 * bytes, "": it is none. */
uint32_t hello_id(const uint8_t *params, size_t length);
void hello_text(const uint8_t *params, size_t length, char *out, size_t size);
/* The same of the second element. */
void hello_second_text(const uint8_t *params, size_t length, char *out, size_t size);
/* What a credit message gives back; a peer that claims too much gets what there is. */
uint32_t hello_count(const frame *frame);
size_t hello_bytes(const frame *frame);

#endif
