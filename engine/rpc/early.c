/* See early.h. Dead frames stay where they are until they are most of what is there. */
#include "rpc/early.h"

#include "base/memory.h"
#include "rpc/hello.h"
#include "wire/codec.h"
#include "wire/frame.h"
#include "wire/token.h"

enum { FIRST_FRAMES = 8, DEAD_FRAMES = 64 /* so many may lie around */ };

void early_fini(early *self) {
  buffer_fini(&self->bytes);
  mem_free(self->frames);
  *self = (struct early){0};
}

static bool frames_grow(early *self) {
  size_t size = self->size ? self->size * 2 : FIRST_FRAMES;
  early_frame *frames = mem_realloc(self->frames, size * sizeof *frames);
  if (!frames) return false;
  self->frames = frames;
  self->size = size;
  return true;
}

bool early_add(early *self, size_t start, uint32_t id, bool notify, bool waits) {
  if (self->count == self->size && !frames_grow(self)) return false;
  self->frames[self->count++] = (early_frame){.start = start,
                                              .length = self->bytes.length - start,
                                              .id = id,
                                              .notify = notify,
                                              .waits = waits};
  self->live++;
  return true;
}

void early_tidy(early *self) {
  if (self->live && self->count - self->live <= self->live + DEAD_FRAMES) return;
  size_t kept = 0, end = 0;
  for (size_t i = 0; i < self->count; i++) {
    early_frame frame = self->frames[i];
    if (frame.dead) continue;
    memmove(self->bytes.data + end, self->bytes.data + frame.start, frame.length);
    frame.start = end;
    end += frame.length;
    self->frames[kept++] = frame;
  }
  self->count = kept;
  self->bytes.length = end;
}

void early_drop_at(early *self, size_t index) {
  if (self->frames[index].dead) return;
  self->frames[index].dead = true;
  self->live--;
}

/* Where the request `id` is; `count`: nowhere. */
static size_t place_of(const early *self, uint32_t id) {
  size_t at = 0;
  for (; at < self->count; at++) {
    const early_frame *frame = &self->frames[at];
    if (!frame->dead && !frame->notify && frame->id == id) break;
  }
  return at;
}

bool early_has(const early *self, uint32_t id) {
  return place_of(self, id) < self->count;
}

size_t early_drop(early *self, uint32_t id) {
  size_t at = place_of(self, id);
  if (at == self->count) return 0;
  early_drop_at(self, at);
  return self->frames[at].length;
}

/* ---- sending ---------------------------------------------------------------- */

/* Appends one frame; a time it carries was counted from when it was written. */
static bool send_frame(const uint8_t *data, const early_frame *sent, buffer *out, early_left left,
                       void *owner) {
  frame parsed;
  fault ignored;
  size_t start = out->length, head = sent->length;
  lp_status status =
      frame_parse(data + FRAME_PREFIX, sent->length - FRAME_PREFIX, &parsed, &ignored);
  bool timed = status == LP_OK && !sent->notify && parsed.meta;
  if (timed) head = (size_t)(parsed.meta - data);
  if (!buffer_append(out, data, head)) return false;
  if (!timed) return true;
  if (!hello_put_meta(out, left(owner, sent->id))) return false;
  frame_end(out, true, start);
  return true;
}

bool early_send(early *self, buffer *out, early_left left, void *owner) {
  bool sent = true;
  for (size_t i = 0; sent && i < self->count; i++) {
    const early_frame *frame = &self->frames[i];
    if (!frame->dead) sent = send_frame(self->bytes.data + frame->start, frame, out, left, owner);
  }
  self->count = self->live = self->bytes.length = 0;
  return sent;
}

/* ---- what a link that went down had not sent -------------------------------- */

/* Size of the wrapped frame at `data` with its prefix; 0: that is none, or not all of one. */
static size_t frame_size(const uint8_t *data, size_t length) {
  if (length < FRAME_PREFIX || data[0] != 0xc9 || data[FRAME_PREFIX - 1] != CODEC_EXT_FRAME)
    return 0;
  uint64_t size = FRAME_PREFIX + token_load(data + 1, 4);
  return size <= length ? (size_t)size : 0;
}

size_t early_boundary(const uint8_t *data, size_t sent) {
  size_t at = 0;
  for (size_t size; (size = frame_size(data + at, sent - at)) > 0;) at += size;
  return at;
}

static bool take_frame(early *self, const uint8_t *data, size_t size, early_keep keep,
                       void *owner) {
  frame parsed;
  fault ignored;
  bool waits;
  if (frame_parse(data + FRAME_PREFIX, size - FRAME_PREFIX, &parsed, &ignored) != LP_OK)
    return true;
  bool notify = parsed.kind == FRAME_NOTIFY;
  if (parsed.kind == FRAME_RESPONSE) return true;
  if (!keep(owner, notify ? 0 : parsed.id, notify, parsed.method, parsed.method_length, &waits))
    return true;
  size_t start = self->bytes.length;
  return buffer_append(&self->bytes, data, size) &&
         early_add(self, start, notify ? 0 : parsed.id, notify, waits);
}

bool early_take(early *self, const uint8_t *data, size_t length, size_t sent, early_keep keep,
                void *owner) {
  for (size_t at = 0, size; (size = frame_size(data + at, length - at)) > 0; at += size)
    if (at >= sent && !take_frame(self, data + at, size, keep, owner)) return false;
  return true;
}
