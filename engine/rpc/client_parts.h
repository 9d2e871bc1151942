/* What the parts of the client share: client.c (its calls and its fields), near.c (calls that need
 * no frame), client_functions.c (what lp.core does with clients) and client_wire.c (how they
 * travel). */
#ifndef LP_RPC_CLIENT_PARTS_H
#define LP_RPC_CLIENT_PARTS_H

#include "rpc/client.h"

typedef enum client_mode { MODE_CALL, MODE_FUTURES, MODE_NOTIFY } client_mode;

typedef struct client {
  const void *kind; /* &metatable_key: tells clients from other userdata */
  peer *peer;
  client_mode mode;
  int used;        /* fields looked up by client_index */
  bool hasty;      /* wait_for_ready = false */
  int64_t timeout; /* ns; CLOCK_NEVER: none */
} client;

/* A call on the stack, or a notification. */
typedef struct outgoing {
  int method, first; /* indices: the name, the first argument */
  int count;         /* of arguments */
  bool waits;        /* for a server that is not there yet */
  int64_t due;
  meter *meter; /* of the method, or NULL */
} outgoing;

/* The client at `index`, NULL: there is something else; client_check raises then. */
client *client_at(lua_State *L, int index);
client *client_check(lua_State *L, int index);
/* Pushes another client like one that is on the stack. */
client *client_copy(lua_State *L, const client *like);
/* When a call made now has to be answered: its own time-out or what its task inherited. */
int64_t client_due(lua_State *L, const client *client);
/* Makes the call on the stack, which is client, method name, arguments and nothing else; what it
 * returns is returned to Lua at once. */
int client_send(lua_State *L, int64_t due);
/* Names of the engine's own messages must not be sent by accident: raises for such a one. */
void client_refuse_reserved(lua_State *L, int index);

#endif
