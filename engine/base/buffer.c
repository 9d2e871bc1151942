/* See buffer.h. */
#include "base/buffer.h"

#include "base/memory.h"

enum { BUFFER_FIRST = 256 };

bool buffer_grow(buffer *buffer, size_t bytes) {
  if (bytes > SIZE_MAX - buffer->length) return false;
  size_t needed = buffer->length + bytes;
  size_t capacity = buffer->capacity ? buffer->capacity : BUFFER_FIRST;
  while (capacity < needed) capacity = capacity > SIZE_MAX / 2 ? needed : capacity * 2;
  uint8_t *data = mem_realloc(buffer->data, capacity);
  if (!data) return false;
  buffer->data = data;
  buffer->capacity = capacity;
  return true;
}

void buffer_fini(buffer *buffer) {
  mem_free(buffer->data);
  *buffer = (struct buffer){0};
}

void buffer_consume(buffer *buffer, size_t bytes) {
  if (bytes >= buffer->length) {
    buffer->length = 0;
    return;
  }
  buffer->length -= bytes;
  memmove(buffer->data, buffer->data + bytes, buffer->length);
}
