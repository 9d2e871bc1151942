/* See peer_silence.h. */
#include "rpc/peer_silence.h"

#include <string.h>

#include "base/memory.h"
#include "rpc/pending.h"
#include "runtime/silence.h"

bool peer_is_silent(const peer *peer, fault *fault) {
  struct fault why;
  if (!peer->target || !silence_find(&peer->rpc->node->engine->silences, peer->target, &why))
    return false;
  char text[FAULT_TEXT];
  peer_unreached(peer, why.text, text, sizeof text);
  fault_set(fault, LP_UNAVAILABLE, "%s", text);
  return true;
}

/* Of what was sent, and of what is still waiting for its link. */
static void fail_hasty(peer *peer, const fault *why) {
  for (uint32_t i = 0; i < peer->slot_count; i++) {
    pending *call = peer->slots[i];
    if (!call || call->waits) continue;
    pending_give_up(call);
    peer_fail_call(peer, call, why->status, why->text);
  }
}

/* To the loop of each node. */
typedef struct news {
  message message;
  uint64_t node;
  char key[];
} news;

static void news_drop(message *carried) {
  mem_free(carried);
}

static void news_run(message *carried, void *at) {
  news *told = (news *)carried;
  node *node = loop_find_node(at, told->node);
  rpc *rpc = node ? node->upper : NULL;
  fault why;
  for (list *each = rpc ? rpc->peers.next : NULL; each && each != &rpc->peers; each = each->next) {
    peer *peer = list_entry(each, struct peer, link);
    if (!peer->target || strcmp(peer->target, told->key) != 0) continue;
    if (peer_is_silent(peer, &why)) fail_hasty(peer, &why);
    peer_wake(peer); /* who waits for credit and should not */
    break;           /* there is but one of a target */
  }
  mem_free(told);
}

static void tell(mailbox *box, uint64_t id, void *key) {
  size_t bytes = strlen(key) + 1;
  news *told = mem_new(sizeof *told + bytes);
  if (!told) return; /* new calls find out by themselves */
  told->message = (message){.run = news_run, .drop = news_drop};
  told->node = id;
  memcpy(told->key, key, bytes);
  if (!mailbox_push(box, MAILBOX_MAIL, &told->message)) mem_free(told);
}

bool peer_silence(engine *engine, const char *key, const char *why) {
  char *copy = mem_strdup(key);
  bool set = copy && silence_set(&engine->silences, key, why);
  if (set && why) engine_each(engine, tell, copy);
  mem_free(copy);
  return set;
}
