/* See buffer.h. */
#include "base/buffer.h"

#include "base/memory.h"

enum { BUFFER_FIRST = 256 };

static bool resize(buffer *buf, size_t capacity) {
  uint8_t *data = mem_realloc(buf->data, capacity);
  if (!data) return false;
  buf->data = data;
  buf->capacity = capacity;
  return true;
}

bool buffer_grow(buffer *buf, size_t bytes) {
  if (bytes > SIZE_MAX - buf->length) return false;
  size_t needed = buf->length + bytes;
  size_t capacity = buf->capacity ? buf->capacity : BUFFER_FIRST;
  while (capacity < needed) capacity = capacity > SIZE_MAX / 2 ? needed : capacity * 2;
  return resize(buf, capacity);
}

bool buffer_grow_exactly(buffer *buf, size_t bytes) {
  return bytes <= SIZE_MAX - buf->length && resize(buf, buf->length + bytes);
}

void buffer_fini(buffer *buf) {
  mem_free(buf->data);
  *buf = (struct buffer){0};
}

bool buffer_fill(buffer *buf, const hole *hole) {
  if (!hole->length) return true;
  if (!buffer_reserve(buf, hole->length)) return false;
  uint8_t *place = buf->data + hole->at;
  memmove(place + hole->length, place, buf->length - hole->at);
  memcpy(place, hole->bytes, hole->length);
  buf->length += hole->length;
  return true;
}

void buffer_consume(buffer *buf, size_t bytes) {
  if (bytes >= buf->length) {
    buf->length = 0;
    return;
  }
  buf->length -= bytes;
  memmove(buf->data, buf->data + bytes, buf->length);
}
