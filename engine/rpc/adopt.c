/* See adopt.h. */
#include "rpc/adopt.h"

#include <string.h>

#include "base/adopted.h"

/* Is the memory large enough for the string's end, and not much larger than what is in it? */
static bool fits(const frame_splitter *from) {
  const buffer *memory = &from->partial;
  size_t end = from->string_at + from->string_length;
  return end < memory->capacity && memory->capacity - end <= ADOPT_KEPT;
}

/* Bytes behind the body are those of the last element alone. */
static bool may_be_had(const frame_splitter *from, const frame *frame) {
  const uint8_t *end = from->partial.data + from->string_at + from->string_length;
  return from->string_length && !frame->error && frame->body + frame->body_length == end &&
         frame->method_length + frame->meta_length <= ADOPT_KEPT && fits(from);
}

void adopt_begin(peer *peer, frame *frame, char kept[ADOPT_KEPT]) {
  frame_splitter *from = &peer->splitter;
  if (!may_be_had(from, frame)) return;
  if (frame->method) frame->method = memcpy(kept, frame->method, frame->method_length);
  if (frame->meta)
    frame->meta = memcpy(kept + frame->method_length, frame->meta, frame->meta_length);
  peer->rpc->adoptable = from;
}

void adopt_end(rpc *rpc) {
  if (rpc->adoptable) slabs_offer_end(&rpc->node->loop->slabs);
  rpc->adoptable = NULL;
}

/* Should it raise, adopt_end takes the offer back. */
void adopt_push(lua_State *L, const char *bytes, size_t length) {
  rpc *rpc = rpc_of(L);
  frame_splitter *from = rpc->adoptable;
  uint8_t *place = from ? from->partial.data + from->string_at : NULL;
  if ((const char *)place != bytes || from->string_length != length) {
    lua_pushlstring(L, bytes, length);
    return;
  }
  slabs *slabs = &rpc->node->loop->slabs;
  slabs_offer(slabs, from->partial.data, place - ADOPTED_HEAD, ADOPTED_HEAD + length + 1);
  lua_pushlstring(L, bytes, length);
  if (slabs_offer_end(slabs)) from->partial = (buffer){0};
  rpc->adoptable = NULL;
}
