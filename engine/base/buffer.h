/* A growable run of bytes. Writers reserve room, then store; nothing is copied
 * twice, and a writer that failed half-way restores `length` to where it began. */
#ifndef LP_BASE_BUFFER_H
#define LP_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct buffer {
  uint8_t *data;   /* owned; NULL while capacity is 0 */
  size_t length;   /* bytes in use */
  size_t capacity; /* bytes allocated */
} buffer;

/* Makes room for `bytes` more behind `length`; false when memory is out (the
 * buffer is then unchanged). The slow half of buffer_reserve. */
bool buffer_grow(buffer *buf, size_t bytes);
/* The same without room for more than that: when it is known how much there will be. */
bool buffer_grow_exactly(buffer *buf, size_t bytes);
/* Releases the memory and leaves an empty buffer that may be used again. */
void buffer_fini(buffer *buf);
/* Drops the first `bytes` bytes (at most `length`). */
void buffer_consume(buffer *buf, size_t bytes);

/* Bytes that belong into a buffer and were left out of it, to be sent from where they are. */
typedef struct hole {
  const char *bytes; /* NULL: nothing was left out; else borrowed */
  size_t length;
  size_t at; /* the offset in the buffer where they belong */
} hole;
/* Puts them in; false as buffer_grow. */
bool buffer_fill(buffer *buf, const hole *hole);

static inline bool buffer_reserve(buffer *buf, size_t bytes) {
  return buf->capacity - buf->length >= bytes || buffer_grow(buf, bytes);
}

static inline bool buffer_append(buffer *buf, const void *bytes, size_t count) {
  if (!buffer_reserve(buf, count)) return false;
  if (count) memcpy(buf->data + buf->length, bytes, count);
  buf->length += count;
  return true;
}

#endif
