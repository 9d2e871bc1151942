/* See writer.h. Containers get heads of 32 bits, which are filled in when they are closed. */
#include "wire/writer.h"

#include "wire/frame.h"

enum { MAP_32 = 0xdf, ARRAY_32 = 0xdd, FLOAT_64 = 0xcb, HEAD = 5 };

static void note(writer *self, bool written) {
  if (!written) self->failed = true;
}

/* One more value in the container that is open, unless it is the value of a key. */
static void counted(writer *self) {
  if (self->depth > 0 && self->out.data && self->out.data[self->heads[self->depth - 1]] == ARRAY_32)
    self->counts[self->depth - 1]++;
}

static void open_container(writer *self, uint8_t head) {
  uint8_t bytes[HEAD] = {head};
  if (self->depth == WRITER_DEPTH) self->failed = true;
  if (self->failed) return;
  counted(self);
  size_t at = self->out.length;
  note(self, buffer_append(&self->out, bytes, sizeof bytes));
  self->heads[self->depth] = at;
  self->counts[self->depth++] = 0;
}

void writer_map(writer *self) {
  open_container(self, MAP_32);
}

void writer_array(writer *self) {
  open_container(self, ARRAY_32);
}

void writer_close(writer *self) {
  if (self->failed) return;
  uint32_t count = self->counts[--self->depth];
  uint8_t *head = self->out.data + self->heads[self->depth];
  for (int i = 0; i < 4; i++) head[1 + i] = (uint8_t)(count >> (24 - 8 * i));
}

void writer_key(writer *self, const char *key) {
  if (self->failed) return;
  self->counts[self->depth - 1]++;
  note(self, frame_put_string(&self->out, key, strlen(key)));
}

void writer_string(writer *self, const char *text, size_t length) {
  if (self->failed) return;
  counted(self);
  note(self, frame_put_string(&self->out, text, length));
}

void writer_text(writer *self, const char *text) {
  if (text) {
    writer_string(self, text, strlen(text));
  } else if (!self->failed) {
    counted(self);
    note(self, frame_put_nil(&self->out));
  }
}

void writer_integer(writer *self, int64_t value) {
  if (self->failed) return;
  counted(self);
  note(self, frame_put_integer(&self->out, value));
}

void writer_number(writer *self, double value) {
  uint64_t bits;
  uint8_t bytes[9] = {FLOAT_64};
  if (self->failed) return;
  counted(self);
  memcpy(&bits, &value, sizeof bits);
  for (int i = 0; i < 8; i++) bytes[1 + i] = (uint8_t)(bits >> (56 - 8 * i));
  note(self, buffer_append(&self->out, bytes, sizeof bytes));
}

void writer_boolean(writer *self, bool value) {
  if (self->failed) return;
  counted(self);
  note(self, frame_put_boolean(&self->out, value));
}

void writer_put_text(writer *self, const char *key, const char *text) {
  if (!text) return;
  writer_key(self, key);
  writer_text(self, text);
}

void writer_put_integer(writer *self, const char *key, int64_t value) {
  writer_key(self, key);
  writer_integer(self, value);
}

void writer_put_number(writer *self, const char *key, double value) {
  writer_key(self, key);
  writer_number(self, value);
}

void writer_put_boolean(writer *self, const char *key, bool value) {
  writer_key(self, key);
  writer_boolean(self, value);
}
