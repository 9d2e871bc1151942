/* See held.h. */
#include "rpc/held.h"

#include <string.h>

#include "base/memory.h"
#include "rpc/circle.h"
#include "rpc/hello.h"

/* What it takes of max_pending_bytes. */
static size_t held_size(const held *held) {
  return sizeof *held + held->frame.method_length + held->frame.body_length +
         held->frame.meta_length;
}

bool held_keep(peer *peer, const frame *frame, int64_t due) {
  rpc *rpc = peer->rpc;
  size_t length = frame->method_length + frame->body_length + frame->meta_length;
  held *kept = mem_alloc(sizeof *kept + length);
  if (!kept) return false;
  uint8_t *at = kept->bytes;
  kept->next = NULL;
  kept->peer = peer_ref(peer);
  kept->session = peer->session;
  kept->due = due;
  kept->arrived_at = rpc->node->loop->now;
  kept->frame = *frame;
  kept->frame.method = (const char *)memcpy(at, frame->method, frame->method_length);
  kept->frame.body = memcpy(at + frame->method_length, frame->body, frame->body_length);
  if (frame->meta)
    kept->frame.meta =
        memcpy(at + frame->method_length + frame->body_length, frame->meta, frame->meta_length);
  *rpc->held_end = kept;
  rpc->held_end = &kept->next;
  rpc->held_count++;
  rpc->held_bytes += held_size(kept);
  peer->handling++;
  if (!rpc->serving && frame->kind == FRAME_REQUEST) circle_held(peer, frame->id);
  return true;
}

void held_remove(rpc *rpc, held **place) {
  held *gone = *place;
  *place = gone->next;
  if (!*place) rpc->held_end = place;
  rpc->held_count--;
  rpc->held_bytes -= held_size(gone);
  gone->peer->handling--;
  peer_unref(gone->peer);
  mem_free(gone);
}

void held_each(const rpc *rpc, held_fn fn, void *owner) {
  for (const held *each = rpc->held; each; each = each->next)
    fn(owner, each->peer, &each->frame, each->arrived_at, each->due);
}

void held_tell(rpc *rpc, const char *list) {
  for (held *each = rpc->held; each; each = each->next)
    if (each->frame.kind == FRAME_REQUEST && each->session == each->peer->session)
      hello_held(each->peer, each->frame.id, list);
}
