/* See busy.h. Within an interrupt, so without Lua. */
#include "rpc/busy.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "rpc/peer.h"
#include "rpc/server.h"
#include "runtime/inspect.h"
#include "runtime/lines.h"

/* Has a socket of the node's brought something that nobody has read? */
static bool sockets_wait(const rpc *rpc) {
  for (const list *each = rpc->peers.next; each != &rpc->peers; each = each->next) {
    const peer *peer = list_entry(each, const struct peer, link);
    if (!peer->wire.stream) continue;
    struct pollfd one = {.fd = stream_fd(peer->wire.stream), .events = POLLIN};
    if (poll(&one, 1, 0) > 0 && one.revents & POLLIN) return true;
  }
  return false;
}

/* Calls, or its own tasks. */
static bool somebody_waits(const rpc *rpc) {
  const node *node = rpc->node;
  return rpc->held || !list_empty(&node->ready) || !list_empty(&node->loop->ready) ||
         mailbox_has(node->loop->box, MAILBOX_MAIL) || sockets_wait(rpc);
}

typedef struct words {
  char text[4096];
  size_t length;
} words;

static void add_line(void *owner, const char *line) {
  words *words = owner;
  size_t room = sizeof words->text - words->length;
  int length = snprintf(words->text + words->length, room, "\n  %s", line);
  if (length > 0) words->length += (size_t)length < room ? (size_t)length : room - 1;
}

/* Who computes: "handler step, called by producer/0". */
static void describe(const task *task, char *out, size_t size) {
  const call *call = task ? server_call_of(task) : NULL;
  if (call)
    snprintf(out, size, "its handler %s, called by %s,", call_method(call), call->peer->name);
  else
    snprintf(out, size, "its %s task", task ? task->kind->name : "engine's");
}

bool busy_tell(node *node, double seconds) {
  rpc *rpc = node->upper;
  words words;
  char who[256];
  if (!rpc || !somebody_waits(rpc)) return false;
  rpc->watched++;
  describe(node->current, who, sizeof who);
  int length =
      snprintf(words.text, sizeof words.text,
               "%s has computed for %.1f s without a wait, and others wait for it:", who, seconds);
  words.length = length > 0 ? (size_t)length : 0;
  inspect_lines(node, node->current, add_line, &words);
  lines_log(node, 2, words.text, words.length);
  return true;
}
