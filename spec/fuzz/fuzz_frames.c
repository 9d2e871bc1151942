/* See fuzz.h. The first byte says whether frames are wrapped (1) and whether the first one ends
 * the time before the hello (2); the second how large they may be; the third how the bytes are cut.
 */
#include <string.h>

#include "base/buffer.h"
#include "fuzz.h"
#include "wire/frame.h"

enum { WRAPPED = 1, TURNS = 2, HEADER = 3, BYTES_ALWAYS = 1 << 20 };

/* What a splitter made of the bytes, in an order that can be compared. */
typedef struct outcome {
  frame_splitter splitter;
  bool turns;  /* wrapped from the next frame on */
  buffer told; /* frames and oversize frames, each with its size */
  lp_status status;
} outcome;

static void put(outcome *self, char kind, const uint8_t *bytes, size_t length) {
  FUZZ_CHECK(buffer_append(&self->told, &kind, 1) &&
             buffer_append(&self->told, &length, sizeof length) &&
             buffer_append(&self->told, bytes, bytes ? length : 0));
}

static bool inside(const void *part, size_t part_length, const uint8_t *data, size_t length) {
  const uint8_t *at = part;
  return at >= data && part_length <= length && (size_t)(at - data) <= length - part_length;
}

/* Every part leads into the frame; the quick way of taking it apart finds the same. */
static void take_apart(const uint8_t *data, size_t length) {
  frame frame, quick;
  fault why = {0};
  lp_status status = frame_parse(data, length, &frame, &why);
  lp_status opened = frame_open(data, length, &quick, NULL);
  FUZZ_CHECK(status == LP_OK || why.text[0]);
  FUZZ_CHECK(status != LP_OK || opened == LP_OK);
  if (opened != LP_OK) return;
  FUZZ_CHECK(quick.kind == FRAME_RESPONSE ||
             inside(quick.method, quick.method_length, data, length));
  FUZZ_CHECK(inside(quick.body, quick.body_length, data, length));
  FUZZ_CHECK(!quick.error || inside(quick.error, quick.error_length, data, length));
  FUZZ_CHECK(!quick.meta || inside(quick.meta, quick.meta_length, data, length));
  if (status != LP_OK) return;
  if (quick.timed) { /* the meta element still lies behind the body */
    FUZZ_CHECK(frame.meta == quick.body + frame.body_length);
    quick.meta = frame.meta;
    quick.meta_length = frame.meta_length;
    quick.body_length -= frame.meta_length;
  }
  FUZZ_CHECK(frame.kind == quick.kind && frame.body == quick.body &&
             frame.body_length == quick.body_length && frame.error == quick.error &&
             frame.meta == quick.meta && frame.meta_length == quick.meta_length);
  FUZZ_CHECK(frame.kind == FRAME_NOTIFY || frame.id == quick.id);
  uint32_t id;
  frame_kind kind;
  FUZZ_CHECK(frame_peek(data, length, &kind, &id) && kind == frame.kind);
  FUZZ_CHECK(kind == FRAME_NOTIFY || id == frame.id);
}

static bool on_frame(void *owner, const uint8_t *data, size_t length) {
  outcome *self = owner;
  put(self, 'f', data, length);
  /* A copy of its own: reading beyond it is seen. */
  uint8_t *copy = malloc(length ? length : 1);
  FUZZ_CHECK(copy);
  memcpy(copy, data, length);
  take_apart(copy, length);
  free(copy);
  if (self->turns) self->splitter.wrapped = true;
  return true;
}

static void on_oversize(void *owner, uint64_t size, const uint8_t *head, size_t length) {
  FUZZ_CHECK(length <= size);
  put(owner, 'o', NULL, (size_t)size);
  put(owner, 'h', head, length);
}

static void begin(outcome *self, const uint8_t *header) {
  *self = (outcome){.turns = header[0] & TURNS};
  frame_splitter_init(&self->splitter, header[0] & WRAPPED && !self->turns,
                      (size_t)16 << header[1] % 16);
}

static void end(outcome *self) {
  frame_splitter_fini(&self->splitter);
  buffer_fini(&self->told);
}

static void feed_whole(outcome *self, const uint8_t *data, size_t length) {
  self->status = frame_split(&self->splitter, data, length, on_frame, on_oversize, self, NULL);
}

/* In pieces, and straight into the splitter's own room where it offers some. */
static void feed_cut(outcome *self, const uint8_t *data, size_t length, unsigned seed) {
  while (length && self->status == LP_OK) {
    seed = seed * 1103515245 + 12345;
    size_t piece = 1 + (seed >> 16) % (seed & 64 ? 3 : 700), room = 0;
    if (piece > length) piece = length;
    uint8_t *place = frame_splitter_space(&self->splitter, &room);
    if (place && piece > room) piece = room;
    if (place) {
      memcpy(place, data, piece);
      self->status = frame_split_stored(&self->splitter, piece, on_frame, on_oversize, self, NULL);
    } else {
      feed_whole(self, data, piece);
    }
    data += piece;
    length -= piece;
  }
}

void fuzz_frames(const uint8_t *data, size_t length) {
  if (length < HEADER) return;
  outcome whole, cut;
  size_t before = fuzz_memory_mark();
  begin(&whole, data);
  feed_whole(&whole, data + HEADER, length - HEADER);
  begin(&cut, data);
  feed_cut(&cut, data + HEADER, length - HEADER, data[2]);
  FUZZ_CHECK(whole.status == cut.status);
  FUZZ_CHECK(whole.told.length == cut.told.length);
  FUZZ_CHECK(!whole.told.length || !memcmp(whole.told.data, cut.told.data, cut.told.length));
  /* A size that is only announced does not cost memory. */
  FUZZ_CHECK(fuzz_memory_peak() - before < length * 16 + BYTES_ALWAYS);
  end(&whole);
  end(&cut);
  FUZZ_CHECK(fuzz_memory_now() == before);
}
