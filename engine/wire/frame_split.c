/* Finding the frames in a stream of bytes; see frame.h.
 *
 * Nothing is copied while whole frames lie in the bytes at hand. What is left of them
 * goes to `partial`, with what is known about it: a wrapped frame's size in `needed`,
 * a bare frame's scan in `scanned` and `open`. `scanned` runs ahead of the partial
 * bytes when a string's end is known and its bytes are still to come. */
#include "base/adopted.h"
#include "wire/codec.h"
#include "wire/frame.h"
#include "wire/token.h"

enum {
  HEAD_BYTES = 64,           /* of an oversize frame, shown to its callback */
  SPACE_LEAST = 16 * 1024,   /* below this a direct read is not worth it */
  SPACE_FIRST = 1024 * 1024, /* room made at once for what has been announced, */
  SPACE_FACTOR = 4,          /* and so many times of what has come */
  TOKENS_BEFORE = 64         /* a long string is looked for behind so many */
};

typedef struct feed {
  frame_splitter *splitter;
  const uint8_t *data; /* bytes not yet dealt with */
  size_t length;
  frame_sink sink;
  frame_oversize oversize;
  void *owner;
  bool stopped; /* by the sink */
  fault *why;
} feed;

void frame_splitter_init(frame_splitter *splitter, bool wrapped, size_t limit_bytes) {
  *splitter = (frame_splitter){.wrapped = wrapped, .limit_bytes = limit_bytes};
}

void frame_splitter_fini(frame_splitter *splitter) {
  buffer_fini(&splitter->partial);
}

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Partial frames move up to `length` bytes over at a time. False: out of memory. */
static bool keep(feed *f, size_t length) {
  length = smaller(length, f->length);
  if (!buffer_append(&f->splitter->partial, f->data, length)) {
    fault_set(f->why, LP_RESOURCE_EXHAUSTED, "out of memory for a frame of %zu bytes and more",
              f->splitter->partial.length + length);
    return false;
  }
  f->data += length;
  f->length -= length;
  return true;
}

static void forget_partial(frame_splitter *splitter) {
  splitter->partial.length = 0;
  splitter->scanned = 0;
  splitter->open = 0;
  splitter->needed = 0;
  splitter->lead = 0;
  splitter->string_length = 0;
}

static void hand_out(feed *f, const uint8_t *bytes, size_t length) {
  f->stopped = !f->sink(f->owner, bytes, length);
}

static void hand_out_partial(feed *f, size_t prefix) {
  buffer *partial = &f->splitter->partial;
  hand_out(f, partial->data + prefix, partial->length - prefix);
  forget_partial(f->splitter);
}

/* ---- wrapped frames --------------------------------------------------------- */

/* Length of the frame whose prefix begins at `at`, into `length`. */
static bool read_prefix(feed *f, const uint8_t *at, uint64_t *length) {
  if (at[0] != 0xc9 || at[FRAME_PREFIX - 1] != CODEC_EXT_FRAME) {
    fault_set(f->why, LP_INVALID_ARGUMENT,
              "the stream is out of step: no frame begins with the bytes %02x .. %02x", at[0],
              at[FRAME_PREFIX - 1]);
    return false;
  }
  *length = token_load(at + 1, 4);
  return true;
}

/* Reports the oversize frame of which `head` bytes are at hand. */
static void report_oversize(feed *f, uint64_t size, const uint8_t *head, size_t at_hand) {
  if (f->oversize) f->oversize(f->owner, size, head, at_hand);
  f->splitter->skip = size - at_hand;
}

static void skip_bytes(feed *f) {
  frame_splitter *splitter = f->splitter;
  size_t step = splitter->skip < f->length ? (size_t)splitter->skip : f->length;
  splitter->skip -= step;
  f->data += step;
  f->length -= step;
}

/* Bytes to be collected of a frame with a body of `length`: all, or the head of one
 * that will be skipped. */
static uint64_t collected(const frame_splitter *splitter, uint64_t length) {
  return FRAME_PREFIX + (length > splitter->limit_bytes ? smaller(HEAD_BYTES, length) : length);
}

static bool finish_wrapped(feed *f) {
  frame_splitter *splitter = f->splitter;
  uint64_t length;
  if (!read_prefix(f, splitter->partial.data + splitter->lead, &length)) return false;
  if (length <= splitter->limit_bytes) {
    hand_out_partial(f, splitter->lead + FRAME_PREFIX);
    return true;
  }
  report_oversize(f, length, splitter->partial.data + FRAME_PREFIX,
                  splitter->partial.length - FRAME_PREFIX);
  forget_partial(splitter);
  return true;
}

/* Room for a frame of which `come` bytes are here: for all of it if that is not far more. Not
 * for whatever was announced: a peer pays for memory with bytes it has sent. A wrapped one has a
 * byte behind it, for the end of a string that is adopted. */
static bool make_room(frame_splitter *splitter, uint64_t needed, size_t come) {
  buffer *partial = &splitter->partial;
  uint64_t paid = SPACE_FIRST + (uint64_t)come * SPACE_FACTOR;
  size_t wanted = (size_t)(needed < paid ? needed : paid);
  if (wanted <= partial->length) return true;
  size_t more = wanted - partial->length;
  if (!splitter->wrapped) return buffer_reserve(partial, more);
  return partial->capacity - partial->length > more || buffer_grow_exactly(partial, more + 1);
}

/* The first string of the body at `at` that is long, if it is not far behind; `at_hand` bytes of
 * the `length` of the body are here. */
static bool find_string(frame_splitter *splitter, const uint8_t *at, size_t at_hand,
                        uint64_t length) {
  const uint8_t *body = at, *end = at + at_hand;
  token t;
  t.kind = TOKEN_NIL; /* for compilers: it is set when it is looked at */
  for (int i = 0; i < TOKENS_BEFORE; i++, at += token_payload(&t)) {
    if (token_read(at, (size_t)(end - at), &t) != TOKEN_READ) return false;
    at += t.head;
    if (token_payload(&t) >= ADOPTED_LEAST) break;
    if (token_payload(&t) > (size_t)(end - at)) return false;
  }
  size_t before = (size_t)(at - body);
  if (t.kind != TOKEN_STRING && t.kind != TOKEN_BINARY) return false;
  if (t.value < ADOPTED_LEAST || t.value > length - before) return false;
  splitter->string_at = before;
  splitter->string_length = (size_t)t.value;
  return true;
}

/* Where the frame whose prefix is at hand begins in `partial`, which is empty: usually in front,
 * but a long string in it is put where Lua can take it over. */
static void place_frame(feed *f, uint64_t length) {
  frame_splitter *splitter = f->splitter;
  if (length < ADOPTED_LEAST || length > splitter->limit_bytes ||
      !find_string(splitter, f->data + FRAME_PREFIX, f->length - FRAME_PREFIX, length))
    return;
  size_t before = FRAME_PREFIX + splitter->string_at;
  size_t place = before < ADOPTED_BEFORE ? ADOPTED_BEFORE : before + ADOPTED_STEP - 1;
  place -= place % ADOPTED_STEP;
  if (!make_room(splitter, place - before + FRAME_PREFIX + length, f->length)) {
    splitter->string_length = 0;
    return;
  }
  splitter->string_at = place;
  splitter->partial.length = splitter->lead = place - before;
}

/* Goes on with the frame in `partial`. */
static bool continue_wrapped(feed *f) {
  frame_splitter *splitter = f->splitter;
  buffer *partial = &splitter->partial;
  uint64_t length;
  if (!splitter->needed) {
    size_t prefix_end = splitter->lead + FRAME_PREFIX;
    if (!keep(f, prefix_end - partial->length)) return false;
    if (partial->length < prefix_end) return true;
    if (!read_prefix(f, partial->data + splitter->lead, &length)) return false;
    splitter->needed = splitter->lead + collected(splitter, length);
    /* Without memory for all of it there may be some for what has come: `keep` sees. */
    make_room(splitter, splitter->needed, partial->length + f->length);
  }
  if (!keep(f, (size_t)splitter->needed - partial->length)) return false;
  return partial->length < splitter->needed || finish_wrapped(f);
}

/* Takes the frame that begins in the bytes at hand, without copying if it is whole. */
static bool split_wrapped(feed *f) {
  frame_splitter *splitter = f->splitter;
  uint64_t length;
  if (splitter->partial.length || f->length < FRAME_PREFIX) return continue_wrapped(f);
  if (!read_prefix(f, f->data, &length)) return false;
  uint64_t wanted = collected(splitter, length);
  if (f->length < wanted) {
    place_frame(f, length);
    return continue_wrapped(f);
  }
  const uint8_t *body = f->data + FRAME_PREFIX;
  size_t body_length = (size_t)wanted - FRAME_PREFIX;
  f->data += wanted;
  f->length -= (size_t)wanted;
  if (length > splitter->limit_bytes)
    report_oversize(f, length, body, body_length);
  else
    hand_out(f, body, body_length);
  return true;
}

/* ---- bare frames ------------------------------------------------------------ */

static bool too_large(feed *f, uint64_t bytes) {
  fault_set(f->why, LP_RESOURCE_EXHAUSTED, "message too large: at least %llu bytes > limit %zu",
            (unsigned long long)bytes, f->splitter->limit_bytes);
  return false;
}

/* Passes one token at `at`, the offset `scanned` of its frame. */
static bool pass_token(feed *f, const token *t) {
  frame_splitter *splitter = f->splitter;
  bool first = splitter->scanned == 0;
  if (first && (t->kind != TOKEN_ARRAY || t->value < 3 || t->value > 5)) {
    fault_set(f->why, LP_INVALID_ARGUMENT, "the peer does not speak MessagePack-RPC");
    return false;
  }
  uint64_t end = splitter->scanned + (uint64_t)t->head + token_payload(t);
  splitter->open += token_children(t);
  splitter->open -= first ? 0 : 1;
  /* Each open value takes a byte at least. */
  if (end + splitter->open > splitter->limit_bytes) return too_large(f, end + splitter->open);
  splitter->scanned = (size_t)end;
  return true;
}

/* True when the frame's end is known. (Nothing scanned: it has not begun.) */
static bool scan_ended(const frame_splitter *splitter) {
  return splitter->scanned && !splitter->open;
}

/* Scans on in the bytes at hand, which begin at offset `base` of the frame. */
static bool scan(feed *f, size_t base) {
  frame_splitter *splitter = f->splitter;
  token t;
  while (!scan_ended(splitter) && splitter->scanned - base < f->length) {
    size_t at = splitter->scanned - base;
    token_state state = token_read(f->data + at, f->length - at, &t);
    if (state == TOKEN_SHORT) return true;
    if (state == TOKEN_INVALID) {
      fault_set(f->why, LP_INVALID_ARGUMENT, "invalid byte c1 in a frame");
      return false;
    }
    if (!pass_token(f, &t)) return false;
  }
  return true;
}

/* A token's head that was cut in two: completes it in `partial` and passes it. */
static bool mend_token(feed *f) {
  frame_splitter *splitter = f->splitter;
  buffer *partial = &splitter->partial;
  token t;
  size_t had = partial->length - splitter->scanned;
  token_state state = token_read(partial->data + splitter->scanned, had, &t);
  if (state == TOKEN_SHORT) {
    if (!keep(f, t.head - had)) return false;
    had = partial->length - splitter->scanned;
    state = token_read(partial->data + splitter->scanned, had, &t);
  }
  return state == TOKEN_SHORT || pass_token(f, &t);
}

/* Goes on with the frame in `partial`. */
static bool continue_bare(feed *f) {
  frame_splitter *splitter = f->splitter;
  buffer *partial = &splitter->partial;
  if (splitter->scanned < partial->length) {
    if (!mend_token(f)) return false;
    if (splitter->scanned < partial->length) return true;
  }
  size_t base = partial->length;
  if (!scan(f, base)) return false;
  bool ended = scan_ended(splitter);
  if (!keep(f, ended ? splitter->scanned - base : f->length)) return false;
  if (ended && partial->length == splitter->scanned) hand_out_partial(f, 0);
  return true;
}

/* Takes the frame that begins in the bytes at hand, without copying if it is whole. */
static bool split_bare(feed *f) {
  frame_splitter *splitter = f->splitter;
  if (splitter->partial.length) return continue_bare(f);
  if (!scan(f, 0)) return false;
  if (!scan_ended(splitter) || splitter->scanned > f->length) return keep(f, f->length);
  const uint8_t *whole = f->data;
  size_t length = splitter->scanned;
  f->data += length;
  f->length -= length;
  forget_partial(splitter);
  hand_out(f, whole, length);
  return true;
}

/* ---- feeding ---------------------------------------------------------------- */

static lp_status run(feed *f) {
  frame_splitter *splitter = f->splitter;
  bool well = true;
  while (well && f->length && !f->stopped) {
    if (splitter->skip)
      skip_bytes(f);
    else
      well = splitter->wrapped ? split_wrapped(f) : split_bare(f);
  }
  /* A link owns memory only for a partial frame. */
  if (!splitter->partial.length) buffer_fini(&splitter->partial);
  return well ? LP_OK : f->why->status;
}

lp_status frame_split(frame_splitter *splitter, const uint8_t *data, size_t length, frame_sink sink,
                      frame_oversize oversize, void *owner, fault *why) {
  fault local;
  feed f = {.splitter = splitter,
            .data = data,
            .length = length,
            .sink = sink,
            .oversize = oversize,
            .owner = owner,
            .why = why ? why : &local};
  return run(&f);
}

/* Bytes that are known to belong to the frame in `partial` and have not come. */
static size_t outstanding(const frame_splitter *splitter) {
  uint64_t end = splitter->wrapped ? splitter->needed : splitter->scanned;
  size_t length = splitter->partial.length;
  return end > length ? (size_t)end - length : 0;
}

uint8_t *frame_splitter_space(frame_splitter *splitter, size_t *size) {
  buffer *partial = &splitter->partial;
  size_t wanted = outstanding(splitter);
  if (wanted < SPACE_LEAST) return NULL;
  if (!make_room(splitter, partial->length + (uint64_t)wanted, partial->length)) return NULL;
  *size = smaller(outstanding(splitter), partial->capacity - partial->length);
  return partial->data + partial->length;
}

/* After bytes were stored in `partial` directly: is the frame whole now? */
static bool finish_stored(feed *f) {
  frame_splitter *splitter = f->splitter;
  if (outstanding(splitter)) return true;
  if (splitter->wrapped) return !splitter->needed || finish_wrapped(f);
  if (scan_ended(splitter)) hand_out_partial(f, 0);
  return true;
}

lp_status frame_split_stored(frame_splitter *splitter, size_t length, frame_sink sink,
                             frame_oversize oversize, void *owner, fault *why) {
  fault local;
  feed f = {.splitter = splitter,
            .sink = sink,
            .oversize = oversize,
            .owner = owner,
            .why = why ? why : &local};
  splitter->partial.length += length;
  return finish_stored(&f) ? run(&f) : f.why->status;
}
