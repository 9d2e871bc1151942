/* The state of one codec_write: shared by the files that write values (codec_write.c), what
 * they nest in (codec_nest.c) and instances of classes (codec_object.c).
 *
 * Values are walked where they are, on the Lua stack, and stored behind `at`, which runs
 * ahead of out->length until the end. Scalars are stored without asking for the message
 * limit: the buffer may run SLACK bytes over it, and the exact size is compared once, at
 * the end. Every function that returns bool returns false once `refused` says why. */
#ifndef LP_WIRE_CODEC_WRITER_H
#define LP_WIRE_CODEC_WRITER_H

#include "wire/codec.h"
#include "wire/codec_refusal.h"

enum {
  WRITER_DEPTH_MAX = 200, /* bounds the C stack as well */
  WRITER_SLOTS = 12,      /* Lua stack one level of nesting may use */
  WRITER_SLACK = 16       /* more than the longest number or a header that grew */
};

typedef struct writer {
  lua_State *L;
  const codec *rules;
  buffer *out;
  uint8_t *at, *stop;    /* next byte; end of the room that may be used unasked */
  size_t start;          /* out->length at the beginning */
  size_t limit, ceiling; /* message bytes; offset in `out` never passed: limit + SLACK */
  int depth, depth_max;  /* tables that are open now */
  int unwatched;         /* down to this depth a table may be opened without a look */
  int cycle;             /* depth whose table contained itself, or -1 */
  hole *hole;            /* for a string to be left out; NULL: none may be */
  size_t left_out;       /* its length */
  bool starts_over;      /* it cannot be left out after all */
  refusal refused;
  int open[WRITER_DEPTH_MAX];                 /* stack indices of the open tables, 0 for none */
  const void *identity[WRITER_DEPTH_MAX + 1]; /* of those that were looked at */
} writer;

static inline size_t writer_offset(const writer *w) {
  return (size_t)(w->at - w->out->data);
}

/* Bytes of the message so far. */
static inline size_t writer_bytes(const writer *w) {
  return writer_offset(w) - w->start + w->left_out;
}

/* The slow half of writer_room. */
bool writer_grow(writer *w, size_t bytes);
/* Takes over where `out` is after its memory may have moved. */
void writer_reload(writer *w, size_t length);
bool writer_too_large(writer *w, size_t bytes);

static inline bool writer_room(writer *w, size_t bytes) {
  return (size_t)(w->stop - w->at) >= bytes || writer_grow(w, bytes);
}

/* Moves everything from offset `from` on by `bytes`, for a header longer than was reserved. */
bool writer_shift(writer *w, size_t from, size_t bytes);

/* ---- a string that is left out -------------------------------------------------- */

/* Bytes left out behind the offset `from`. */
static inline size_t writer_left_out(const writer *w, size_t from) {
  return w->left_out && w->hole->at > from ? w->left_out : 0;
}

/* What comes next needs the bytes as they will be, or runs what may free strings: from here on
 * nothing is left out. False: something was, and the message is written once more. */
bool writer_keeps_all(writer *w);

/* ---- nesting (codec_nest.c) --------------------------------------------------- */

/* The slow half of writer_deepen: bounds, room on the Lua stack, cycles. */
bool writer_look(writer *w, int index);

/* One more level of nesting, the value at `index` (0: one that is no table of its own). The
 * caller closes it with writer_leave, which is told whether all in it was written.
 *
 * Tables are not compared with those they are in until they are a few levels deep: a
 * cycle comes by there as well, and what is flat pays nothing. */
static inline bool writer_deepen(writer *w, int index) {
  if (w->depth >= w->unwatched && !writer_look(w, index)) return false;
  w->open[w->depth++] = index;
  return true;
}

/* Closes the innermost level; returns `written`, how it ended. */
bool writer_leave_refused(writer *w);
static inline bool writer_leave(writer *w, bool written) {
  w->depth--;
  return written || writer_leave_refused(w);
}

/* One of the open tables is open twice: sets the refusal that says so. */
bool writer_finds_cycle(writer *w);

/* ---- values ------------------------------------------------------------------- */

bool write_value(writer *w, int index);               /* codec_write.c */
bool write_string(writer *w, int index);              /* codec_write.c */
bool write_fields(writer *w, int index, int base);    /* codec_write.c */
bool write_array_head(writer *w, lua_Unsigned count); /* codec_write.c */
bool write_object(writer *w, int index);              /* codec_object.c */
bool write_userdata(writer *w, int index);            /* codec_object.c */

#endif
