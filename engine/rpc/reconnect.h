/* When a client without a link tries again, when it says in the log that it waits, and when a
 * server that accepted and says nothing is given up: pure, fed with the time and with random
 * bits, so that it can be tested without waiting. connecting.c is its one user. */
#ifndef LP_RPC_RECONNECT_H
#define LP_RPC_RECONNECT_H

#include <stdbool.h>
#include <stdint.h>

#define RECONNECT_FIRST_NS  INT64_C(10000000)    /* back-off after the first failure; doubles */
#define RECONNECT_LAST_NS   INT64_C(1000000000)  /* up to this */
#define RECONNECT_NOTICE_NS INT64_C(10000000000) /* waited so long: said once per wait */
#define RECONNECT_GREET_NS  INT64_C(10000000000) /* a server has so long to greet */

typedef struct reconnect {
  uint32_t failures; /* tries in a row that came to nothing */
  int64_t since;     /* when the wait began */
  int64_t retry_at;  /* these three: CLOCK_NEVER while there is nothing to do */
  int64_t greet_by;
  int64_t notice_at;
} reconnect;

typedef enum reconnect_act {
  RECONNECT_NOTHING,
  RECONNECT_NOTICE, /* say that somebody has waited long */
  RECONNECT_SILENT, /* the server has not greeted in time: a failure */
  RECONNECT_RETRY
} reconnect_act;

/* Somebody begins to wait for a link. */
void reconnect_begin(reconnect *self, int64_t now);
/* A try was made; `greets`: whoever is there is to greet in time. */
void reconnect_tried(reconnect *self, int64_t now, bool greets);
/* It came to nothing: the next one is due in half to all of the back-off, by `random`. */
void reconnect_failed(reconnect *self, int64_t now, uint32_t random);
/* No try is due: somebody else looks after it. */
void reconnect_hold(reconnect *self);
/* When to call reconnect_next, CLOCK_NEVER: not of itself. */
int64_t reconnect_due(const reconnect *self);
/* What is due, one thing at a time; call until it is RECONNECT_NOTHING. */
reconnect_act reconnect_next(reconnect *self, int64_t now);

#endif
