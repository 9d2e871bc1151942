/* Nodes that the host program implements (lp.HostNode). The node itself is one of the engine like
 * any other, made in Lua (lp.runtime), but its calls are answered here: the host's method is
 * called where the request is read, with no interpreter between. */
#include <stdio.h>
#include <string.h>

#include "api/embed.h"
#include "base/memory.h"
#include "rpc/methods.h"
#include "wire/frame.h"

typedef struct method {
  char *name;
  lp_method fn;
} method;

typedef struct implementation {
  list link; /* engine->implementations */
  native_body body;
  char *name;
  lp_engine *engine;
  void *user;
  size_t count;
  method methods[];
} implementation;

struct lp_call {
  call *call; /* NULL: over, nobody waits */
  lp_engine *engine;
  char *node;
  char method[];
};

/* ---- calls ------------------------------------------------------------------ */

static void call_free(lp_call *call) {
  embed_unref(call->engine);
  mem_free(call->node);
  mem_free(call);
}

static lp_call *call_make(lp_engine *engine, call *from, const frame *frame) {
  lp_call *made = mem_alloc(sizeof *made + frame->method_length + 1);
  if (!made) return NULL;
  made->node = mem_strdup(from->peer->rpc->node->name);
  if (!made->node) {
    mem_free(made);
    return NULL;
  }
  memcpy(made->method, frame->method, frame->method_length);
  made->method[frame->method_length] = 0;
  made->engine = embed_ref(engine);
  made->call = from;
  from->holder = &made->call;
  return made;
}

static const method *find_method(const implementation *self, const char *name, size_t length) {
  const method *any = NULL;
  for (size_t i = 0; i < self->count; i++) {
    const char *each = self->methods[i].name;
    if (strlen(each) == length && memcmp(each, name, length) == 0) return &self->methods[i];
    if (strcmp(each, "*") == 0) any = &self->methods[i];
  }
  return any;
}

static void refuse_unknown(call *call, const frame *frame) {
  char text[FAULT_TEXT];
  snprintf(text, sizeof text, "node %s has no method %.*s", call->peer->rpc->node->name,
           (int)(frame->method_length < 200 ? frame->method_length : 200), frame->method);
  native_fail(call, LP_NOT_FOUND, text);
}

/* An array of the names, for lp.list_methods. */
static void answer_methods(const implementation *self, call *call) {
  buffer names = {0};
  bool put = frame_put_array(&names, (uint32_t)self->count);
  for (size_t i = 0; i < self->count && put; i++)
    put = frame_put_string(&names, self->methods[i].name, strlen(self->methods[i].name));
  if (put)
    native_return(call, names.data, names.length, 1, NULL);
  else
    native_fail(call, LP_RESOURCE_EXHAUSTED, "out of memory");
  buffer_fini(&names);
}

static void dispatch(void *owner, call *call, const frame *frame) {
  const implementation *self = owner;
  if (frame->method_length == strlen(METHODS_REQUEST) &&
      memcmp(frame->method, METHODS_REQUEST, frame->method_length) == 0) {
    answer_methods(self, call);
    return;
  }
  bool reserved = methods_reserved(frame->method, frame->method_length);
  const method *found = reserved ? NULL : find_method(self, frame->method, frame->method_length);
  if (!found) {
    refuse_unknown(call, frame);
    return;
  }
  lp_call *made = call_make(self->engine, call, frame);
  if (!made) {
    native_fail(call, LP_RESOURCE_EXHAUSTED, "out of memory");
    return;
  }
  lp_reader arguments = reader_of_array(frame->body, frame->body_length);
  found->fn(self->user, made, &arguments);
}

static lp_status check_call(const lp_call *call, const char *what) {
  if (!call) return embed_fail(LP_INVALID_ARGUMENT, "%s: the call is NULL", what);
  if (pthread_equal(call->engine->thread, pthread_self())) return LP_OK;
  return embed_fail(LP_FAILED_PRECONDITION,
                    "%s: the call belongs to the engine's thread (lp_post runs a function there)",
                    what);
}

lp_status lp_call_return(lp_call *call, const lp_values *results) {
  fault fault;
  lp_status status = check_call(call, "lp_call_return");
  if (status != LP_OK) return status;
  status = values_check(results, "lp_call_return");
  if (status != LP_OK && call->call) {
    native_fail(call->call, LP_INTERNAL, lp_message());
  } else if (status == LP_OK && call->call) {
    status =
        native_return(call->call, results ? results->bytes.data : NULL,
                      results ? results->bytes.length : 0, results ? results->count : 0, &fault);
    if (status != LP_OK) embed_fault(&fault);
  }
  call_free(call);
  return status;
}

lp_status lp_call_fail(lp_call *call, lp_status code, const char *message) {
  lp_status status = check_call(call, "lp_call_fail");
  if (status != LP_OK) return status;
  if (code <= LP_OK || code > LP_UNAUTHENTICATED) code = LP_UNKNOWN;
  if (call->call) native_fail(call->call, code, message ? message : lp_strerror(code));
  call_free(call);
  return LP_OK;
}

const char *lp_call_method(const lp_call *call) {
  return call ? call->method : NULL;
}

const char *lp_call_node(const lp_call *call) {
  return call ? call->node : NULL;
}

bool lp_call_wanted(const lp_call *call) {
  return call && call->call && server_can_answer(call->call);
}

/* ---- implementations -------------------------------------------------------- */

static implementation *find(lp_engine *engine, const char *name) {
  for (list *each = engine->implementations.next; each != &engine->implementations;
       each = each->next) {
    implementation *one = list_entry(each, implementation, link);
    if (strcmp(one->name, name) == 0) return one;
  }
  return NULL;
}

const native_body *embed_native(engine *inner, const char *name) {
  implementation *found = find(inner->native_owner, name);
  return found ? &found->body : NULL;
}

static void implementation_free(implementation *self) {
  list_remove(&self->link);
  for (size_t i = 0; i < self->count; i++) mem_free(self->methods[i].name);
  mem_free(self->name);
  mem_free(self);
}

void embed_host_fini(lp_engine *engine) {
  while (!list_empty(&engine->implementations))
    implementation_free(list_entry(engine->implementations.next, implementation, link));
}

static implementation *implementation_new(lp_engine *engine, const char *name,
                                          const lp_methods *methods, size_t count) {
  implementation *made = mem_new(sizeof *made + count * sizeof *made->methods);
  if (!made) return NULL;
  list_init(&made->link);
  made->count = count;
  made->engine = engine;
  made->body = (native_body){dispatch, made};
  bool copied = (made->name = mem_strdup(name)) != NULL;
  for (size_t i = 0; i < count && copied; i++) {
    made->methods[i].fn = methods[i].fn;
    copied = (made->methods[i].name = mem_strdup(methods[i].name)) != NULL;
  }
  if (copied) return made;
  implementation_free(made);
  return NULL;
}

lp_status lp_host_node(lp_engine *engine, const char *name, const lp_methods *methods, void *user) {
  static const char what[] = "lp_host_node";
  lp_status status = embed_check(engine, what);
  if (status != LP_OK) return status;
  if (!name || !*name || !methods)
    return embed_fail(LP_INVALID_ARGUMENT, "%s: %s", what,
                      methods ? "the name is empty or NULL" : "methods is NULL");
  size_t count = 0;
  for (; methods[count].name; count++)
    if (!methods[count].fn)
      return embed_fail(LP_INVALID_ARGUMENT, "%s: method \"%s\" has no function", what,
                        methods[count].name);
  if (find(engine, name))
    return embed_fail(LP_ALREADY_EXISTS, "%s: \"%s\" has been given already", what, name);
  implementation *made = implementation_new(engine, name, methods, count);
  if (!made) return embed_fail(LP_RESOURCE_EXHAUSTED, "%s: out of memory", what);
  made->user = user;
  list_push(&engine->implementations, &made->link);
  return LP_OK;
}
