/* See circle.h. The list is a text of names with a line for each; one that grows too long
 * is not passed on. */
#include "rpc/circle.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "rpc/client.h"
#include "rpc/held.h"
#include "rpc/hello.h"
#include "rpc/pending.h"
#include "rpc/rpc.h"

/* The call the constructor waits for is the one we were told about. */
static bool waits(const rpc *rpc) {
  const pending *call = rpc->circle_call;
  return !rpc->serving && rpc->circle && rpc->maker && rpc->maker->waiting_for == call &&
         call->id == rpc->circle_id;
}

/* This node's name in front of the list, or alone. False: too long. */
static bool extended(const rpc *rpc, const char *list, char *out, size_t size) {
  int length = snprintf(out, size, "%s%s%s", rpc->node->name, *list ? "\n" : "", list);
  return length > 0 && (size_t)length < size;
}

void circle_held(peer *peer, uint32_t id) {
  rpc *rpc = peer->rpc;
  char list[FAULT_TEXT];
  hello_held(peer, id, rpc->node->name);
  if (waits(rpc) && extended(rpc, rpc->circle, list, sizeof list)) hello_held(peer, id, list);
}

/* Is `name` one of the lines of `list`? */
static bool contains(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *line = list; line; line = strchr(line, '\n')) {
    if (*line == '\n') line++;
    if (strncmp(line, name, length) == 0 && (line[length] == '\n' || !line[length])) return true;
  }
  return false;
}

static void fail_circle(lua_State *L, pending *call, const char *list) {
  char names[FAULT_TEXT], text[2 * FAULT_TEXT];
  size_t length = 0;
  for (const char *c = list; *c && length + 5 < sizeof names; c++) {
    if (*c == '\n')
      length += (size_t)snprintf(names + length, 5, " -> ");
    else
      names[length++] = *c;
  }
  names[length] = 0;
  const char *self = call->peer->rpc->node->name;
  snprintf(text, sizeof text, "constructors wait for each other in a circle: %s -> %s", self,
           names);
  pending_give_up(call);
  client_fail(L, call, LP_FAILED_PRECONDITION, text);
}

void circle_told(lua_State *L, peer *peer, const frame *frame) {
  rpc *rpc = peer->rpc;
  char list[FAULT_TEXT], longer[FAULT_TEXT];
  pending *call = pending_of(peer, hello_id(frame->body, frame->body_length));
  if (!call || rpc->serving || !call->task || call->task != rpc->maker) return;
  hello_second_text(frame->body, frame->body_length, list, sizeof list);
  if (contains(list, rpc->node->name)) {
    fail_circle(L, call, list);
    return;
  }
  mem_free(rpc->circle);
  rpc->circle = mem_strdup(list);
  rpc->circle_call = call;
  rpc->circle_id = call->id;
  if (rpc->circle && extended(rpc, list, longer, sizeof longer)) held_tell(rpc, longer);
}
