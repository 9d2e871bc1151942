/* Writes a tree of MessagePack without Lua and without knowing its sizes beforehand: reports made
 * in C, perhaps while the interpreter they are about is in the middle of something. */
#ifndef LP_WIRE_WRITER_H
#define LP_WIRE_WRITER_H

#include "base/buffer.h"

enum { WRITER_DEPTH = 12 };

/* All zeros is an empty one. What failed for want of memory is told by `failed` at the end. */
typedef struct writer {
  buffer out; /* owned by whoever made the writer: buffer_fini */
  bool failed;
  int depth;
  size_t heads[WRITER_DEPTH]; /* where the open containers begin */
  uint32_t counts[WRITER_DEPTH];
} writer;

/* Open a map or an array as the value that comes next; writer_close ends the innermost. */
void writer_map(writer *self);
void writer_array(writer *self);
void writer_close(writer *self);
/* The key of the value that comes next, in a map. */
void writer_key(writer *self, const char *key);

void writer_string(writer *self, const char *text, size_t length);
void writer_text(writer *self, const char *text); /* NULL: nil */
void writer_integer(writer *self, int64_t value);
void writer_number(writer *self, double value);
void writer_boolean(writer *self, bool value);

/* Key and value in one. */
void writer_put_text(writer *self, const char *key, const char *text); /* NULL: left out */
void writer_put_integer(writer *self, const char *key, int64_t value);
void writer_put_number(writer *self, const char *key, double value);
void writer_put_boolean(writer *self, const char *key, bool value);

#endif
