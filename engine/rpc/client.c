/* Clients as scripts see them: userdata whose fields are methods of the node behind it.
 * A call is encoded from the Lua stack straight into the link's buffer; its results are
 * decoded straight onto the stack of the coroutine that waits. */
#include <lauxlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hot.h"
#include "rpc/client_parts.h"
#include "rpc/connecting.h"
#include "rpc/future.h"
#include "rpc/hello.h"
#include "rpc/methods.h"
#include "rpc/near.h"
#include "rpc/pending.h"
#include "runtime/failure.h"
#include "wire/codec_small.h"

enum { METHOD_CACHE = 4096, OWN_FIELDS = 16, COARSE_FROM_NS = 1000000000 };
enum { UV_FUTURES = 1, UV_NOTIFY = 2 };

static const char metatable_key = 0;
static const char fields_key = 0; /* registry: metatable of tables of fields */
static const char client_key = 0; /* in such a table: the client */

client *client_at(lua_State *L, int index) {
  client *found = lua_touserdata(L, index);
  if (!found || lua_rawlen(L, index) != sizeof *found) return NULL; /* light ones have none */
  return found->kind == &metatable_key && found->peer ? found : NULL;
}

client *client_check(lua_State *L, int index) {
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

client *client_copy(lua_State *L, const client *like) {
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

/* The same as write_call for a request that has a few scalars for arguments. False: nothing was
 * written. */
HOT_INLINE bool write_small(lua_State *L, peer *peer, pending *call, const outgoing *what) {
  const meter *name = what->meter;
  if (UNLIKELY(!name || name->others || name->length > FRAME_SMALL_METHOD)) return false;
  if (near_request(L, peer, call, what)) return true;
  buffer *out = peer_small_begin(peer, FRAME_SMALL_ROOM);
  if (UNLIKELY(!out)) return false;
  bool timed = what->due != CLOCK_NEVER;
  uint8_t *start = out->data + out->length;
  uint8_t *body = frame_small_request(start, call->id, name->name, name->length, timed);
  uint8_t *end = codec_put_small(L, what->first, what->count, &peer->rpc->codec, body,
                                 out->data + out->capacity - HELLO_META_MAX);
  if (UNLIKELY(!end)) return false;
  if (UNLIKELY(timed)) end = hello_put_time(end, what->due - clock_coarse());
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
  hole hole = {0};
  buffer *out = peer_write_begin(peer, &start);
  if (!out) return fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for a call");
  bool timed = call && due != CLOCK_NEVER;
  bool begun = call ? frame_begin_request(out, true, call->id, method, length, timed, &at)
                    : frame_begin_notify(out, true, method, length, false, &at);
  lp_status status =
      begun ? codec_write_around(L, what->first, what->count, "argument", &peer->rpc->codec, out,
                                 peer_sends_around(peer) ? &hole : NULL, fault)
            : fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for a call");
  if (status == LP_OK && timed && !hello_put_meta(out, due - clock_now()))
    status = fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for a call");
  if (status != LP_OK) {
    peer_write_undo(peer, start);
    return status;
  }
  if (peer->state != PEER_OPEN) return keep_written(peer, call, what, out, start, fault);
  size_t bytes = out->length - start + hole.length;
  if (!peer_write_around(peer, start, &hole)) {
    peer_write_undo(peer, start);
    return fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for a call");
  }
  pending_charge(peer, call, what->meter, bytes);
  return LP_OK;
}

/* Sends the call on the stack; NULL with fault when it cannot be written. */
HOT_INLINE pending *send_request(lua_State *L, peer *peer, const outgoing *what, fault *fault) {
  pending *made = pending_new(peer);
  if (UNLIKELY(!made)) {
    fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for a call");
    return NULL;
  }
  made->waits = what->waits;
  if (LIKELY(write_small(L, peer, made, what)) || write_call(L, peer, made, what, fault) == LP_OK)
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

/* A call that was not sent has failed: raised, or for client.futures a future's error. */
static int fail_call(lua_State *L, const fault *fault) {
  const client *client = lua_touserdata(L, AT_CLIENT);
  if (client->mode != MODE_FUTURES) return failure_raise(L, fault->status, fault->text);
  future_push(L);
  failure_push(L, fault->status, fault->text);
  future_settle(L, -2, false, 1);
  return 1;
}

static int fail_late(lua_State *L, int method) {
  fault fault;
  const peer *peer = ((client *)lua_touserdata(L, AT_CLIENT))->peer;
  bool away = peer->state != PEER_OPEN && peer->end_text;
  fault_set(&fault, LP_DEADLINE_EXCEEDED,
            "deadline exceeded: no answer from %s to %s within its time%s%s", peer->name,
            lua_tostring(L, method), away ? ": " : "", away ? peer->end_text : "");
  return fail_call(L, &fault);
}

/* The answer's values are on top. */
HOT_INLINE int call_end_of(lua_State *L, int method) {
  task *task = node_of(L)->current;
  bool failed = task->failed;
  task->failed = false;
  if (UNLIKELY(!task_after_wait(L))) return fail_late(L, method);
  if (UNLIKELY(failed)) return lua_error(L);
  return task->nargs;
}

static int call_end(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  return call_end_of(L, AT_METHOD);
}

static int method_end(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  return call_end_of(L, lua_upvalueindex(1));
}

HOT_INLINE int call_wait(lua_State *L, peer *peer, const outgoing *what, lua_KFunction end) {
  fault fault;
  task *task = task_before_wait(L);
  pending *sent = send_request(L, peer, what, &fault);
  if (!sent) return failure_raise(L, fault.status, fault.text);
  sent->task = task;
  task->waiting_for = sent;
  task->abandon = call_abandon;
  return task_yield(L, task, what->due, 0, end);
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

static int fail_full(lua_State *L, const peer *peer) {
  fault fault;
  bool calls = peer->window <= 0;
  fault_set(&fault, LP_RESOURCE_EXHAUSTED,
            "node %s is full: it takes no more than %lld %s of this node at once (its "
            "%s), and by its on_full a call beyond that fails",
            peer->name, (long long)(calls ? peer->granted.calls : peer->granted.bytes),
            calls ? "calls" : "bytes of calls", calls ? "edge_calls" : "edge_bytes");
  return fail_call(L, &fault);
}

/* Credit came back, or the link went away: from the start. */
static int call_retry(lua_State *L, int status, lua_KContext due) {
  (void)status;
  if (!task_after_wait(L)) return fail_late(L, AT_METHOD);
  return client_send(L, due);
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

int client_send(lua_State *L, int64_t due) {
  client *client = lua_touserdata(L, AT_CLIENT);
  peer *peer = client->peer;
  fault fault;
  if ((peer->state != PEER_OPEN || client->hasty) && !peer_connect(peer, client->hasty, &fault))
    return fail_call(L, &fault);
  if (!has_credit(peer)) {
    peer->rpc->met[BOUND_EDGE]++;
    if (peer->granted.fails) return fail_full(L, peer);
    task *task = task_before_wait(L);
    list_push(&peer->waiters, &task->link);
    return task_yield(L, task, due, due, call_retry);
  }
  const outgoing what = {AT_METHOD,      AT_FIRST, lua_gettop(L) - AT_FIRST + 1,
                         !client->hasty, due,      meter_of(L, peer->rpc, AT_METHOD)};
  if (client->mode == MODE_CALL) return call_wait(L, peer, &what, call_end);
  if (client->mode == MODE_FUTURES) return call_future(L, peer, &what);
  return call_notify(L, peer, &what);
}

HOT_SHARED int64_t client_due(lua_State *L, const client *client) {
  task *task = node_of(L)->current;
  int64_t due = task && task->shield == 0 ? task->deadline : CLOCK_NEVER;
  if (client->timeout == CLOCK_NEVER) return due;
  bool coarse =
      client->timeout >= COARSE_FROM_NS; /* that much later does not matter, never earlier */
  int64_t now = coarse ? clock_coarse() + CLOCK_COARSE_NS : clock_now();
  return now + client->timeout < due ? now + client->timeout : due;
}

/* client:method(...): upvalue 1 is the name, 2 its meter. The client of the call before is known by
 * its address, which no other userdata has before it is collected (client_gc). */
static int method_call(lua_State *L) {
  client *client = lua_touserdata(L, 1);
  rpc *rpc = rpc_of(L);
  if (UNLIKELY(!client || client != rpc->client)) rpc->client = client = client_at(L, 1);
  if (!client)
    return luaL_error(L, "call methods of a client with a colon: client:%s(...)",
                      lua_tostring(L, lua_upvalueindex(1)));
  peer *peer = client->peer;
  if (LIKELY(client->mode == MODE_CALL && peer->state == PEER_OPEN && has_credit(peer) &&
             !client->hasty)) {
    const outgoing what = {lua_upvalueindex(1),           AT_METHOD,
                           lua_gettop(L) - AT_METHOD + 1, true,
                           client_due(L, client),         lua_touserdata(L, lua_upvalueindex(2))};
    return call_wait(L, peer, &what, method_end);
  }
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, AT_METHOD);
  return client_send(L, client_due(L, client));
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
  return client_send(L, client_due(L, client));
}

void client_refuse_reserved(lua_State *L, int index) {
  size_t length;
  const char *name = luaL_checklstring(L, index, &length);
  if (methods_reserved(name, length))
    failure_raisef(L, LP_NOT_FOUND, "%.60s: names that begin with lp. are the engine's", name);
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
  client_refuse_reserved(L, 2);
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
  if (client == rpc_of(L)->client) rpc_of(L)->client = NULL;
  client->peer = NULL;
  if (peer) peer_unref(peer);
  return 0;
}

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
