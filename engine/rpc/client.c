/* Clients as scripts see them: userdata whose fields are methods of the node behind it.
 * A call is encoded from the Lua stack straight into the link's buffer; its results are
 * decoded straight onto the stack of the coroutine that waits. */
#include <lauxlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hot.h"
#include "rpc/client.h"
#include "rpc/connecting.h"
#include "rpc/future.h"
#include "rpc/hello.h"
#include "rpc/methods.h"
#include "rpc/pending.h"
#include "rpc/server.h"
#include "runtime/failure.h"
#include "wire/codec_small.h"
#include "wire/token.h"

typedef enum client_mode { MODE_CALL, MODE_FUTURES, MODE_NOTIFY } client_mode;

typedef struct client {
  const void *kind; /* &metatable_key: tells clients from other userdata */
  peer *peer;
  client_mode mode;
  int used;        /* fields looked up by client_index */
  bool hasty;      /* wait_for_ready = false */
  int64_t timeout; /* ns; CLOCK_NEVER: none */
} client;

enum { METHOD_CACHE = 4096, OWN_FIELDS = 16 };
enum { UV_FUTURES = 1, UV_NOTIFY = 2 };

static const char metatable_key = 0;
static const char fields_key = 0; /* registry: metatable of tables of fields */
static const char client_key = 0; /* in such a table: the client */

static client *client_at(lua_State *L, int index) {
  client *found = lua_touserdata(L, index);
  if (!found || lua_rawlen(L, index) != sizeof *found) return NULL; /* light ones have none */
  return found->kind == &metatable_key && found->peer ? found : NULL;
}

static client *client_check(lua_State *L, int index) {
  client *found = client_at(L, index);
  if (!found) luaL_typeerror(L, index, "client");
  return found;
}

/* Pushes a client of no peer, without options. May collect, and so free other clients of the peer
 * to come: the caller must hold a reference of its own meanwhile. */
static client *client_blank(lua_State *L) {
  luaL_checkstack(L, 3, NULL);
  client *made = lua_newuserdatauv(L, sizeof *made, 2);
  *made = (client){.kind = &metatable_key, .mode = MODE_CALL, .timeout = CLOCK_NEVER};
  lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable_key);
  lua_setmetatable(L, -2);
  return made;
}

/* Pushes another client like one that is on the stack. */
static client *client_copy(lua_State *L, const client *like) {
  client *made = client_blank(L);
  *made = *like;
  made->used = 0;
  peer_ref(made->peer);
  return made;
}

void client_push(lua_State *L, peer *peer) {
  client_blank(L)->peer = peer;
}

/* ---- calls ------------------------------------------------------------------ */
/* The stack of a call in work: client, method name, arguments. The closure of a method has the
 * name as an upvalue, and no name on the stack unless the call has to wait before it is sent. */

enum { AT_CLIENT = 1, AT_METHOD = 2, AT_FIRST = 3 };

typedef struct outgoing {
  int method, first; /* indices: the name, the first argument */
  bool waits;        /* for a server that is not there yet */
  int64_t due;
  meter *meter; /* of the method, or NULL */
} outgoing;

static int call_go(lua_State *L, int64_t due);

/* Keeps the call written from `start` for the link that is to come. */
static lp_status keep_written(peer *peer, pending *call, const outgoing *what, buffer *out,
                              size_t start, fault *fault) {
  size_t bytes = out->length - start;
  peer_write_sent(peer, out, start);
  if (!connecting_add(peer, start, call, what->waits)) {
    peer_write_undo(peer, start);
    return fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for a call");
  }
  pending_charge(peer, call, what->meter, bytes);
  return LP_OK;
}

/* The same as write_call for a request without a time that has a few scalars for arguments.
 * False: nothing was written. */
HOT_INLINE bool write_small(lua_State *L, peer *peer, pending *call, const outgoing *what) {
  size_t length;
  const char *method = lua_tolstring(L, what->method, &length);
  if (what->due != CLOCK_NEVER || length > FRAME_SMALL_METHOD) return false;
  buffer *out = peer_small_begin(peer, FRAME_SMALL_ROOM);
  if (!out) return false;
  uint8_t *start = out->data + out->length;
  uint8_t *body = frame_small_request(start, call->id, method, length);
  uint8_t *end = codec_put_small(L, what->first, lua_gettop(L) - what->first + 1, &peer->rpc->codec,
                                 body, out->data + out->capacity);
  if (!end) return false;
  pending_charge(peer, call, what->meter, (size_t)(end - start));
  peer_small_end(peer, out, end);
  return true;
}

/* Writes the call on the stack, a notification when `call` is NULL, and takes its credit. */
static lp_status write_call(lua_State *L, peer *peer, pending *call, const outgoing *what,
                            fault *fault) {
  size_t start, at, length;
  const char *method = lua_tolstring(L, what->method, &length);
  int64_t due = what->due;
  buffer *out = peer_write_begin(peer, &start);
  if (!out) return fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for a call");
  bool timed = call && due != CLOCK_NEVER;
  bool begun = call ? frame_begin_request(out, true, call->id, method, length, timed, &at)
                    : frame_begin_notify(out, true, method, length, false, &at);
  int count = lua_gettop(L) - what->first + 1;
  lp_status status =
      begun ? codec_write(L, what->first, count, "argument", &peer->rpc->codec, out, fault)
            : fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for a call");
  if (status == LP_OK && timed && !hello_put_meta(out, due - clock_now()))
    status = fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for a call");
  if (status != LP_OK) {
    peer_write_undo(peer, start);
    return status;
  }
  if (peer->state != PEER_OPEN) return keep_written(peer, call, what, out, start, fault);
  pending_charge(peer, call, what->meter, out->length - start);
  peer_write_sent(peer, out, start);
  return LP_OK;
}

/* Sends the call on the stack; NULL with fault when it cannot be written. */
HOT_INLINE pending *send_request(lua_State *L, peer *peer, const outgoing *what, fault *fault) {
  pending *made = pending_new(peer);
  if (!made) {
    fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for a call");
    return NULL;
  }
  made->waits = what->waits;
  if (write_small(L, peer, made, what) || write_call(L, peer, made, what, fault) == LP_OK)
    return made;
  pending_free(made);
  return NULL;
}

static void call_abandon(task *task) {
  pending *abandoned = task->waiting_for;
  pending_give_up(abandoned);
  pending_free(abandoned);
}

const pending *client_awaited(const task *task) {
  return task->abandon == call_abandon ? task->waiting_for : NULL;
}

static int raise_deadline(lua_State *L, int method) {
  const peer *peer = ((client *)lua_touserdata(L, AT_CLIENT))->peer;
  bool away = peer->state != PEER_OPEN && peer->end_text;
  return failure_raisef(
      L, LP_DEADLINE_EXCEEDED, "deadline exceeded: no answer from %s to %s within its time%s%s",
      peer->name, lua_tostring(L, method), away ? ": " : "", away ? peer->end_text : "");
}

/* `sent` is the stack's height when the call went out; results lie above. */
HOT_INLINE int call_end_of(lua_State *L, int sent, int method) {
  task *task = node_of(L)->current;
  bool failed = task->failed;
  task->failed = false;
  if (!task_after_wait(L)) return raise_deadline(L, method);
  if (failed) return lua_error(L);
  return lua_gettop(L) - sent;
}

static int call_end(lua_State *L, int status, lua_KContext sent) {
  (void)status;
  return call_end_of(L, (int)sent, AT_METHOD);
}

static int method_end(lua_State *L, int status, lua_KContext sent) {
  (void)status;
  return call_end_of(L, (int)sent, lua_upvalueindex(1));
}

HOT_INLINE int call_wait(lua_State *L, peer *peer, const outgoing *what, lua_KFunction end) {
  fault fault;
  task *task = task_before_wait(L);
  pending *sent = send_request(L, peer, what, &fault);
  if (!sent) return failure_raise(L, fault.status, fault.text);
  sent->task = task;
  task->waiting_for = sent;
  task->abandon = call_abandon;
  return task_yield(L, task, what->due, lua_gettop(L), end);
}

static int call_future(lua_State *L, peer *peer, const outgoing *what) {
  fault fault;
  future *made = future_push(L);
  int reference = luaL_ref(L, LUA_REGISTRYINDEX);
  pending *sent = send_request(L, peer, what, &fault);
  if (!sent) {
    luaL_unref(L, LUA_REGISTRYINDEX, reference);
    return failure_raise(L, fault.status, fault.text);
  }
  sent->future = reference;
  future_attach(made, sent);
  if (what->due != CLOCK_NEVER)
    timer_start(&peer->rpc->node->loop->timers, &sent->timer, what->due);
  lua_rawgeti(L, LUA_REGISTRYINDEX, reference);
  return 1;
}

static int call_notify(lua_State *L, peer *peer, const outgoing *what) {
  fault fault;
  if (write_call(L, peer, NULL, what, &fault) == LP_OK) return 0;
  return failure_raise(L, fault.status, fault.text);
}

static int raise_full(lua_State *L, peer *peer) {
  bool calls = peer->window <= 0;
  return failure_raisef(L, LP_RESOURCE_EXHAUSTED,
                        "node %s is full: it takes no more than %lld %s of this node at once (its "
                        "%s), and by its on_full a call beyond that fails",
                        peer->name, (long long)(calls ? peer->granted.calls : peer->granted.bytes),
                        calls ? "calls" : "bytes of calls", calls ? "edge_calls" : "edge_bytes");
}

/* Credit came back, or the link went away: from the start. */
static int call_retry(lua_State *L, int status, lua_KContext due) {
  (void)status;
  if (!task_after_wait(L)) return raise_deadline(L, AT_METHOD);
  return call_go(L, due);
}

/* Of the method whose name is at `index`. */
static meter *meter_of(lua_State *L, rpc *rpc, int index) {
  size_t length;
  const char *name = lua_tolstring(L, index, &length);
  return meter_get(&rpc->made, name, length);
}

static bool has_credit(const peer *peer) {
  return peer->window > 0 && peer->window_bytes > 0;
}

static int call_go(lua_State *L, int64_t due) {
  client *client = lua_touserdata(L, AT_CLIENT);
  peer *peer = client->peer;
  fault fault;
  if ((peer->state != PEER_OPEN || client->hasty) && !peer_connect(peer, client->hasty, &fault))
    return failure_raise(L, fault.status, fault.text);
  if (!has_credit(peer)) {
    peer->rpc->met[BOUND_EDGE]++;
    if (peer->granted.fails) return raise_full(L, peer);
    task *task = task_before_wait(L);
    list_push(&peer->waiters, &task->link);
    return task_yield(L, task, due, due, call_retry);
  }
  const outgoing what = {AT_METHOD, AT_FIRST, !client->hasty, due,
                         meter_of(L, peer->rpc, AT_METHOD)};
  if (client->mode == MODE_CALL) return call_wait(L, peer, &what, call_end);
  if (client->mode == MODE_FUTURES) return call_future(L, peer, &what);
  return call_notify(L, peer, &what);
}

/* When this call has to be answered: its own time-out or what its task inherited. */
static int64_t call_due(lua_State *L, const client *client) {
  task *task = node_of(L)->current;
  int64_t due = task && task->shield == 0 ? task->deadline : CLOCK_NEVER;
  if (client->timeout == CLOCK_NEVER) return due;
  int64_t own = clock_now() + client->timeout;
  return own < due ? own : due;
}

/* client:method(...): upvalue 1 is the name, 2 its meter. */
static int method_call(lua_State *L) {
  client *client = client_at(L, 1);
  if (!client)
    return luaL_error(L, "call methods of a client with a colon: client:%s(...)",
                      lua_tostring(L, lua_upvalueindex(1)));
  peer *peer = client->peer;
  if (client->mode == MODE_CALL && peer->state == PEER_OPEN && has_credit(peer) && !client->hasty) {
    const outgoing what = {lua_upvalueindex(1), AT_METHOD, !client->hasty, call_due(L, client),
                           lua_touserdata(L, lua_upvalueindex(2))};
    return call_wait(L, peer, &what, method_end);
  }
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, AT_METHOD);
  return call_go(L, call_due(L, client));
}

/* client(...), client.futures(...), client.notify(...). */
static int client_call(lua_State *L) {
  client *client = client_check(L, 1);
  struct client *first = client->mode == MODE_CALL ? NULL : client_at(L, 2);
  if (first && first->peer == client->peer && first->mode == MODE_CALL) {
    const char *word = client->mode == MODE_FUTURES ? "futures" : "notify";
    return luaL_error(
        L,
        "client:%s(...) calls nothing; for a method of that name use lp.call(client, \"%s\", ...)",
        word, word);
  }
  lua_pushliteral(L, "__call");
  lua_insert(L, AT_METHOD);
  return call_go(L, call_due(L, client));
}

/* Names of the engine's own messages must not be sent by accident. */
static void refuse_reserved(lua_State *L, int index) {
  size_t length;
  const char *name = luaL_checklstring(L, index, &length);
  if (length >= 3 && memcmp(name, "lp.", 3) == 0)
    failure_raisef(L, LP_NOT_FOUND, "%.60s: names that begin with lp. are the engine's", name);
}

/* lp.call(client, "name", ...) */
static int core_call(lua_State *L) {
  client *client = client_check(L, 1);
  luaL_checktype(L, 2, LUA_TSTRING);
  refuse_reserved(L, 2);
  return call_go(L, call_due(L, client));
}

/* ask(client, "lp.name", ...): a reserved method, for the engine's own modules; answered on control
 * links only. */
static int core_ask(lua_State *L) {
  client *client = client_check(L, 1);
  luaL_checktype(L, 2, LUA_TSTRING);
  return call_go(L, call_due(L, client));
}

/* ---- fields ----------------------------------------------------------------- */

static int push_proxy(lua_State *L, int place, client_mode mode) {
  client *client = lua_touserdata(L, 1);
  if (lua_getiuservalue(L, 1, place) == LUA_TUSERDATA) return 1;
  client_copy(L, client)->mode = mode;
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, 1, place);
  return 1;
}

static lua_Integer methods_known(lua_State *L) {
  lua_rawgeti(L, lua_upvalueindex(1), 1);
  lua_Integer known = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return known;
}

/* A name asked for the first time; upvalue 1 is the cache, which is bounded. */
static int make_method(lua_State *L) {
  luaL_checktype(L, 2, LUA_TSTRING);
  refuse_reserved(L, 2);
  lua_pushvalue(L, 2);
  lua_pushlightuserdata(L, meter_of(L, rpc_of(L), 2));
  lua_pushcclosure(L, method_call, 2);
  lua_Integer known = methods_known(L);
  if (known >= METHOD_CACHE) return 1;
  lua_pushinteger(L, known + 1);
  lua_rawseti(L, lua_upvalueindex(1), 1);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, -2);
  lua_rawset(L, lua_upvalueindex(1));
  return 1;
}

/* The client that is used often gets a table of its fields, and with it a metatable of its own
 * whose __index is that table: so Lua finds them without a call of C. */
static void own_fields(lua_State *L) {
  luaL_checkstack(L, 6, NULL);
  lua_getmetatable(L, 1);
  lua_createtable(L, 0, 8);
  for (lua_pushnil(L); lua_next(L, -3);) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -4);
  }
  lua_createtable(L, 0, 3);
  lua_pushvalue(L, 1);
  lua_rawsetp(L, -2, &client_key);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &fields_key);
  lua_setmetatable(L, -2);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, 1);
  lua_pop(L, 1);
}

/* The field 2 of the client 1. */
static int push_field(lua_State *L) {
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) == LUA_TFUNCTION) return 1;
  lua_pop(L, 1);
  client *client = client_check(L, 1);
  const char *name = luaL_checkstring(L, 2);
  if (client->mode == MODE_CALL && strcmp(name, "futures") == 0)
    return push_proxy(L, UV_FUTURES, MODE_FUTURES);
  if (client->mode == MODE_CALL && strcmp(name, "notify") == 0)
    return push_proxy(L, UV_NOTIFY, MODE_NOTIFY);
  return make_method(L);
}

/* The __index of clients that are not used often. */
static int client_index(lua_State *L) {
  client *client = client_check(L, 1);
  lua_settop(L, 2);
  if (client->used++ == OWN_FIELDS) own_fields(L);
  return push_field(L);
}

/* The __index of a client's table of fields: what is not in it yet. Bounded as the cache is. */
static int fields_index(lua_State *L) {
  lua_settop(L, 2);
  lua_pushvalue(L, 1);
  lua_rawgetp(L, 1, &client_key);
  lua_replace(L, 1);
  push_field(L);
  if (methods_known(L) >= METHOD_CACHE) return 1;
  lua_pushvalue(L, 2);
  lua_pushvalue(L, -2);
  lua_rawset(L, 3);
  return 1;
}

static int client_newindex(lua_State *L) {
  return luaL_error(L, "a client's fields cannot be set");
}

static int client_tostring(lua_State *L) {
  client *client = client_at(L, 1);
  lua_pushfstring(L, "client of %s", client ? client->peer->name : "nothing");
  return 1;
}

static int client_gc(lua_State *L) {
  client *client = lua_touserdata(L, 1);
  peer *peer = client->peer;
  client->peer = NULL;
  if (peer) peer_unref(peer);
  return 0;
}

/* ---- on the wire ------------------------------------------------------------ */

/* An extension of type CODEC_EXT_CLIENT: the target's key, a zero byte, the node's name. */
size_t client_encode(uint8_t *out, size_t size, const peer *peer) {
  if (!peer->target) return 0;
  size_t key = strlen(peer->target) + 1, name = strlen(peer->name);
  if (key + name > UINT8_MAX || 3 + key + name > size) return 0;
  out[0] = 0xc7; /* ext 8 */
  out[1] = (uint8_t)(key + name);
  out[2] = CODEC_EXT_CLIENT;
  memcpy(out + 3, peer->target, key);
  memcpy(out + 3 + key, peer->name, name);
  return 3 + key + name;
}

static bool write_client(lua_State *L, int index, buffer *out) {
  client *client = client_at(L, index);
  if (!client || client->mode != MODE_CALL || !buffer_reserve(out, 3 + UINT8_MAX)) return false;
  size_t length = client_encode(out->data + out->length, 3 + UINT8_MAX, client->peer);
  out->length += length;
  return length > 0;
}

/* Both texts from the payload; the length of the first, 0: it is none. */
static size_t client_texts(const uint8_t *data, size_t length, char *text) {
  if (length > UINT8_MAX) return 0;
  memcpy(text, data, length);
  text[length] = 0;
  size_t key = strlen(text);
  return key < length ? key : 0;
}

size_t client_decode(const uint8_t *data, size_t length, char *text) {
  token t = {0};
  if (token_read(data, length, &t) != TOKEN_READ || t.kind != TOKEN_EXT ||
      t.ext_type != CODEC_EXT_CLIENT || t.value > length - t.head)
    return 0;
  return client_texts(data + t.head, (size_t)t.value, text);
}

static bool read_client(lua_State *L, int type, const uint8_t *data, size_t length) {
  char text[UINT8_MAX + 1];
  size_t key = type == CODEC_EXT_CLIENT ? client_texts(data, length, text) : 0;
  if (!key) return false;
  peer *peer = peer_get(rpc_of(L), text, text + key + 1);
  if (!peer) failure_raise(L, LP_RESOURCE_EXHAUSTED, "out of memory");
  client_push(L, peer);
  return true;
}

const codec_hooks client_codec_hooks = {.write_userdata = write_client, .read_ext = read_client};

/* ---- functions -------------------------------------------------------------- */

/* client(key, name): the client of a node; key is what engine or connector find it by. */
static int core_client(lua_State *L) {
  const char *key = luaL_checkstring(L, 1);
  peer *peer = peer_get(rpc_of(L), key, luaL_optstring(L, 2, key));
  if (!peer) return failure_raise(L, LP_RESOURCE_EXHAUSTED, "out of memory");
  client_push(L, peer);
  return 1;
}

static int core_is_client(lua_State *L) {
  lua_pushboolean(L, client_at(L, 1) != NULL);
  return 1;
}

/* with(client, {timeout = seconds, wait_for_ready = boolean}): the same client with other
 * options; those that are nil stay. Names and types were checked by lp.options. */
static int core_with(lua_State *L) {
  client *client = client_check(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  struct client *made = client_copy(L, client);
  if (lua_getfield(L, 2, "timeout") != LUA_TNIL) {
    double seconds = luaL_checknumber(L, -1);
    made->timeout = seconds > 0 ? clock_from_seconds(seconds) : CLOCK_NEVER;
  }
  if (lua_getfield(L, 2, "wait_for_ready") != LUA_TNIL) made->hasty = !lua_toboolean(L, -1);
  lua_pop(L, 2);
  return 1;
}

/* target(client) -> key or nil, name */
static int core_target(lua_State *L) {
  client *client = client_check(L, 1);
  lua_pushstring(L, client->peer->target);
  lua_pushstring(L, client->peer->name);
  return 2;
}

/* list_methods(client) -> array of the names that can be called */
static int core_list_methods(lua_State *L) {
  client *client = client_check(L, 1);
  lua_settop(L, 1);
  lua_pushliteral(L, METHODS_REQUEST);
  return call_go(L, call_due(L, client));
}

/* connection_state(client) -> a word */
static int core_connection_state(lua_State *L) {
  lua_pushstring(L, peer_state_name(client_check(L, 1)->peer));
  return 1;
}

/* dial(client, address): where its target is; part of a connector, as the next two. */
static int core_dial(lua_State *L) {
  peer_dial(client_check(L, 1)->peer, luaL_checkstring(L, 2));
  return 0;
}

/* refuse(client, text): the target is gone, and will not be back. */
static int core_refuse(lua_State *L) {
  peer *peer = client_check(L, 1)->peer;
  peer_down(peer, LP_UNAVAILABLE, luaL_checkstring(L, 2));
  if (peer->state == PEER_IDLE) peer->trouble = PEER_GONE;
  return 0;
}

/* away(client, text) -> whether somebody waits: the target is away, the connector will know when
 * it is back. */
static int core_away(lua_State *L) {
  lua_pushboolean(L, connecting_watched(client_check(L, 1)->peer, luaL_checkstring(L, 2)));
  return 1;
}

/* on_close(client, fn): calls fn(text) in a task when its link goes down. */
static int core_on_close(lua_State *L) {
  client *client = client_check(L, 1);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  luaL_unref(L, LUA_REGISTRYINDEX, client->peer->on_close);
  client->peer->on_close = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

/* caller() -> a client of whoever called the handler that runs, or nil. */
static int core_caller(lua_State *L) {
  peer *peer = server_caller(L);
  if (!peer) return 0;
  client_push(L, peer_ref(peer));
  return 1;
}

const luaL_Reg client_functions[] = {
    {"call", core_call},
    {"ask", core_ask},
    {"client", core_client},
    {"is_client", core_is_client},
    {"with", core_with},
    {"target", core_target},
    {"list_methods", core_list_methods},
    {"connection_state", core_connection_state},
    {"dial", core_dial},
    {"refuse", core_refuse},
    {"away", core_away},
    {"on_close", core_on_close},
    {"caller", core_caller},
    {NULL, NULL},
};

void client_open(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"__call", client_call},
      {"__newindex", client_newindex},
      {"__tostring", client_tostring},
      {"__gc", client_gc},
      {NULL, NULL},
  };
  luaL_newlib(L, methods);
  lua_pushliteral(L, "lp.Client");
  lua_setfield(L, -2, "__name");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_newtable(L); /* the methods asked for, by name; their number at 1 */
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, -2);
  lua_pushcclosure(L, fields_index, 1);
  lua_setfield(L, -2, "__index");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &fields_key);
  lua_pushcclosure(L, client_index, 1);
  lua_setfield(L, -2, "__index");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &metatable_key);
}
