/* See overview.h. Here: the calls under way. */
#include "rpc/held.h"
#include "rpc/inbox.h"
#include "rpc/overview.h"
#include "rpc/pending.h"
#include "rpc/server.h"

enum { MOST_CALLS = 5000 }; /* of each direction, described one by one */

typedef struct listing {
  writer *out;
  int64_t now;
  int described;
} listing;

/* Begins one, unless there are too many. */
static bool begin(listing *list, const char *side, const char *node, const char *method,
                  int64_t began, int64_t due) {
  if (list->described++ >= MOST_CALLS) return false;
  writer_map(list->out);
  writer_put_text(list->out, side, node);
  writer_put_text(list->out, "method", method);
  writer_put_number(list->out, "seconds", overview_seconds(began, list->now));
  if (due != CLOCK_NEVER)
    writer_put_number(list->out, "deadline", overview_seconds(list->now, due));
  return true;
}

static void put_made(listing *list, const peer *peer) {
  for (uint32_t i = 0; i < peer->slot_count; i++) {
    const pending *call = peer->slots[i];
    if (!call) continue;
    const char *method = call->watch.meter ? call->watch.meter->name : NULL;
    if (!begin(list, "to", peer->name, method, call->watch.began, pending_due(call))) continue;
    writer_put_text(list->out, "state", peer->state == PEER_OPEN ? "sent" : "connecting");
    writer_put_boolean(list->out, "future", call->task == NULL);
    writer_close(list->out);
  }
}

static void put_waiting(listing *list, const peer *peer, const frame *frame, int64_t arrived_at,
                        int64_t due, const char *state) {
  char method[64];
  size_t length =
      frame->method_length < sizeof method - 1 ? frame->method_length : sizeof method - 1;
  memcpy(method, frame->method, length);
  method[length] = 0;
  if (!begin(list, "from", peer->name, method, arrived_at, due)) return;
  writer_put_text(list->out, "state", state);
  writer_close(list->out);
}

static void put_held(void *owner, const peer *peer, const frame *frame, int64_t arrived_at,
                     int64_t due) {
  put_waiting(owner, peer, frame, arrived_at, due, "waiting for a handler");
}

static void put_ready(void *owner, const peer *peer, const frame *frame, int64_t arrived_at,
                      int64_t due) {
  put_waiting(owner, peer, frame, arrived_at, due, "ready");
}

static void put_handled(listing *list, const call *call, const char *state) {
  if (!begin(list, "from", call->peer->name, call_method(call), call->watch.began,
             server_due(call)))
    return;
  writer_put_text(list->out, "state", state);
  if (call->notify) writer_put_boolean(list->out, "notify", true);
  writer_close(list->out);
}

static void put_served(listing *list, const rpc *rpc) {
  static const char *const words[] = {"", "ready", "ready", "running", "waiting"};
  const node *node = rpc->node;
  for (int i = 0; i < node->task_slots; i++) {
    const task *task = node->tasks[i];
    if (!task || task->state == TASK_IDLE) continue;
    const call *call = server_call_of(task);
    if (call) put_handled(list, call, words[task->state]);
  }
  inbox_each(rpc, put_ready, list);
  for (const struct list *each = rpc->deferred.next; each != &rpc->deferred; each = each->next)
    put_handled(list, list_entry(each, const call, link), "deferred");
  held_each(rpc, put_held, list);
}

void overview_calls(const rpc *rpc, writer *out) {
  listing made = {out, clock_now(), 0}, served = made;
  writer_map(out);
  writer_key(out, "made");
  writer_array(out);
  for (const list *each = rpc->peers.next; each != &rpc->peers; each = each->next)
    put_made(&made, list_entry(each, const peer, link));
  writer_close(out);
  writer_key(out, "served");
  writer_array(out);
  put_served(&served, rpc);
  writer_close(out);
  int omitted = made.described > MOST_CALLS ? made.described - MOST_CALLS : 0;
  if (served.described > MOST_CALLS) omitted += served.described - MOST_CALLS;
  writer_put_integer(out, "omitted", omitted);
  writer_close(out);
}
