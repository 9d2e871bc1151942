/* An engine without a host: a loop that the test turns, nodes whose main task is a piece of Lua
 * text, and what became of them. */
#ifndef LP_SPEC_HARNESS_H
#define LP_SPEC_HARNESS_H
#include <lauxlib.h>

#include "api/core.h"
#include "base/clock.h"
#include "runtime/engine.h"
#include "test.h"

typedef struct harness {
  engine engine;
  loop *loop;        /* the service's too */
  char output[8192]; /* what nodes printed */
  int ended;         /* nodes that have */
  lp_status status;  /* of the last one */
  char text[1024];
} harness;

static inline void harness_event(engine *engine, const event *event) {
  harness *self = engine->owner;
  if (event->kind == EVENT_OUTPUT)
    strncat(self->output, event->text, sizeof self->output - strlen(self->output) - 1);
  if (event->kind != EVENT_NODE_ENDED) return;
  self->ended++;
  self->status = (lp_status)event->status;
  snprintf(self->text, sizeof self->text, "%s", event->text);
}

static inline void harness_begin(harness *self) {
  memset(self, 0, sizeof *self);
  CHECK(engine_init(&self->engine));
  self->engine.owner = self;
  self->engine.on_event = harness_event;
  self->loop = self->engine.service = loop_new(&self->engine, "test", NULL);
  CHECK(self->loop);
}

/* Turns the loop until the condition holds; a test that waits for ever has failed. */
#define TURN_UNTIL(harness, condition)                          \
  do {                                                          \
    int64_t harness_limit = clock_now() + INT64_C(30000000000); \
    while (!(condition) && clock_now() < harness_limit)         \
      loop_turn((harness)->loop, clock_now() + 20000000);       \
    CHECK(condition);                                           \
  } while (0)

static inline void harness_end(harness *self) {
  loop_free(self->loop);
  engine_fini(&self->engine);
}

/* Gives the node the module `spec`, whose main(text) runs the text. */
static inline int harness_open(lua_State *L) {
  static const char module[] =
      "core = require 'lp.core' "
      "return {main = function(text) return assert(load(text, '=text'))() end}";
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "preload");
  if (luaL_loadstring(L, module) != LUA_OK) return lua_error(L);
  lua_setfield(L, -2, "spec");
  return 0;
}

static inline node *harness_node_on(loop *loop, const char *name, const char *text) {
  fault why = {0};
  node_request request = {.name = name,
                          .key = name,
                          .boot = {"spec", "main", text, strlen(text)},
                          .open = harness_open};
  node *made = core_node(loop, &request, &why);
  if (!made) fprintf(stderr, "no node: %s\n", why.text);
  CHECK(made);
  return made;
}

static inline node *harness_node(harness *self, const char *name, const char *text) {
  return harness_node_on(self->loop, name, text);
}

/* Runs the text as a node of its own to its end. */
static inline bool harness_run(harness *self, const char *text) {
  int before = self->ended;
  harness_node(self, "one", text);
  TURN_UNTIL(self, self->ended > before);
  if (self->status != LP_OK) fprintf(stderr, "%s\n", self->text);
  return self->status == LP_OK;
}

static inline void harness_kill(node *node) {
  node->killed = true;
  node_ready(node);
}
#endif
