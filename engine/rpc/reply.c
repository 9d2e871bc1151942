/* See reply.h. */
#include "rpc/reply.h"

#include <stdio.h>
#include <string.h>

#include "runtime/failure.h"

typedef struct reply {
  call *call;     /* NULL: answered, or nobody waits any more */
  char place[72]; /* where defer_reply was called */
} reply;

static const char metatable_key = 0;

void reply_forget(call *call) {
  if (call->reply) call->reply->call = NULL;
  call->reply = NULL;
}

void reply_end_all(rpc *rpc, peer *peer, const uint32_t *id) {
  for (list *each = rpc->deferred.next, *next; each != &rpc->deferred; each = next) {
    next = each->next;
    call *call = list_entry(each, struct call, link);
    if (peer && (call->peer != peer || (id && call->id != *id))) continue;
    if (!peer && server_can_answer(call)) server_refuse_ended(call->peer, call->id);
    if (id && server_can_answer(call)) /* for the caller's credit */
      server_refuse(call->peer, call->id, LP_CANCELLED, "the caller gave up");
    server_release(call);
  }
}

static reply *reply_check(lua_State *L) {
  reply *found = lua_touserdata(L, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable_key);
  bool same = found && lua_getmetatable(L, 1) && lua_rawequal(L, -1, -2);
  if (!same) luaL_typeerror(L, 1, "reply (call its methods with a colon: reply:ok(...))");
  lua_pop(L, 2);
  return found;
}

/* Done with the call; while its handler still runs, the handler's end does that. */
static void settle(reply *reply) {
  call *call = reply->call;
  reply->call = NULL;
  call->reply = NULL;
  if (call->task) {
    call->session--; /* what the handler returns is not sent */
  } else {
    server_release(call);
  }
}

/* ok(...) -> true; false: nobody waits any more. Raises what cannot be sent. */
static int reply_ok(lua_State *L) {
  reply *reply = reply_check(L);
  fault fault;
  bool wanted = reply->call && server_can_answer(reply->call);
  if (wanted && server_answer(L, reply->call, 2, &fault) != LP_OK)
    return failure_raise(L, fault.status, fault.text);
  if (reply->call) settle(reply);
  lua_pushboolean(L, wanted);
  return 1;
}

/* error(value) -> true; false: nobody waits any more. */
static int reply_error(lua_State *L) {
  reply *reply = reply_check(L);
  bool wanted = reply->call && server_can_answer(reply->call);
  lua_settop(L, 2);
  if (wanted) {
    lua_pushcfunction(L, failure_handler);
    lua_insert(L, 2);
    lua_call(L, 1, 1);
    server_answer_error(L, reply->call, 2);
  }
  if (reply->call) settle(reply);
  lua_pushboolean(L, wanted);
  return 1;
}

static bool is_ending(const node *node) {
  return node->killed || node->closing || atomic_load(&node->state) >= NODE_DRAINING;
}

static int reply_gc(lua_State *L) {
  reply *reply = lua_touserdata(L, 1);
  call *call = reply->call;
  if (!call) return 0;
  if (server_can_answer(call) && is_ending(call->peer->rpc->node)) {
    server_refuse_ended(call->peer, call->id); /* which has cancelled who was to use it */
  } else if (server_can_answer(call)) {
    char text[FAULT_TEXT];
    snprintf(text, sizeof text, "no reply: the handler of %s (%s) lost the reply it deferred",
             call_method(call), reply->place);
    server_refuse(call->peer, call->id, LP_INTERNAL, text);
  }
  settle(reply);
  return 0;
}

/* defer_reply() -> reply: what this handler returns is not sent; the reply's ok or error is. */
static int core_defer_reply(lua_State *L) {
  call *call = server_call(L);
  if (!call || call->notify || call->reply)
    return luaL_error(L, "lp.defer_reply: only a handler of a call that wants an answer can, once");
  reply *made = lua_newuserdatauv(L, sizeof *made, 0);
  *made = (reply){0};
  lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable_key);
  lua_setmetatable(L, -2);
  luaL_where(L, 1);
  snprintf(made->place, sizeof made->place, "%s", lua_tostring(L, -1));
  size_t length = strlen(made->place);
  if (length > 2 && made->place[length - 2] == ':') made->place[length - 2] = 0;
  lua_pop(L, 1);
  made->call = call;
  call->reply = made;
  return 1;
}

const luaL_Reg reply_functions[] = {{"defer_reply", core_defer_reply}, {NULL, NULL}};

void reply_open(lua_State *L) {
  static const luaL_Reg methods[] = {{"ok", reply_ok}, {"error", reply_error}, {NULL, NULL}};
  lua_createtable(L, 0, 4);
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, reply_gc);
  lua_setfield(L, -2, "__gc");
  lua_pushliteral(L, "lp.Reply");
  lua_setfield(L, -2, "__name");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &metatable_key);
}
