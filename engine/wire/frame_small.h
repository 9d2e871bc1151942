/* Writing a wrapped frame in one go: its head here, its body by codec_small.h, its prefix last.
 * Into room that has been made; nothing of the node's runs between. What the bytes are is said
 * in frame.h. */
#ifndef LP_WIRE_FRAME_SMALL_H
#define LP_WIRE_FRAME_SMALL_H

#include "base/bytes.h"
#include "base/hot.h"
#include "wire/codec.h"
#include "wire/frame.h"
#include "wire/token.h"

enum {
  FRAME_SMALL_METHOD = 64, /* the longest name that is written here */
  FRAME_SMALL_ROOM = 512   /* for everything; with longer strings it is another way's frame */
};

/* That of a call first: it is large, see FIRST_ID in rpc/peer.c. */
static inline uint8_t *frame_small_id(uint8_t *at, uint32_t id) {
  return id > UINT16_MAX ? token_put_32(at, 0xce, id) : token_put_integer(at, id);
}

/* Both give where the body begins. Behind the name there are 16 bytes that can be read. With
 * `timed` the caller writes the meta element behind the body. */
HOT_INLINE uint8_t *frame_small_request(uint8_t *start, uint32_t id, const char *method,
                                        size_t length, bool timed) {
  uint8_t *at = start + FRAME_PREFIX;
  at = token_put_array(at, timed ? 5 : 4);
  at = token_put_integer(at, FRAME_REQUEST);
  at = frame_small_id(at, id);
  at = token_put_str(at, (uint32_t)length);
  bytes_copy_beyond(at, method, length);
  return at + length;
}

HOT_INLINE uint8_t *frame_small_response(uint8_t *start, uint32_t id) {
  uint8_t *at = start + FRAME_PREFIX;
  at = token_put_array(at, 4);
  at = token_put_integer(at, FRAME_RESPONSE);
  at = frame_small_id(at, id);
  return token_put_nil(at);
}

static inline void frame_small_end(uint8_t *start, const uint8_t *end) {
  size_t length = (size_t)(end - start) - FRAME_PREFIX;
  *token_put_32(start, 0xc9, (uint32_t)length) = CODEC_EXT_FRAME;
}

#endif
