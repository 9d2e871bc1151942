/* Frames: taking apart, building, and finding them in bytes that come in any pieces. */
#include <stdlib.h>

#include "base/adopted.h"
#include "base/memory.h"
#include "test.h"
#include "wire/codec.h"
#include "wire/frame.h"
#include "wire/token.h"

static fault why;

static size_t from_hex(const char *hex, uint8_t *bytes) {
  size_t length = 0;
  for (unsigned value; *hex; hex += 2) {
    while (*hex == ' ') hex++;
    if (sscanf(hex, "%2x", &value) != 1) break;
    bytes[length++] = (uint8_t)value;
  }
  return length;
}

/* ---- parsing ------------------------------------------------------------------ */

static uint8_t parsed[256];

static lp_status parse(const char *hex, frame *out) {
  why.text[0] = 0;
  return frame_parse(parsed, from_hex(hex, parsed), out, &why);
}

static bool is_bad(const char *hex, const char *text) {
  frame f;
  bool well = parse(hex, &f) == LP_INVALID_ARGUMENT && strstr(why.text, text);
  if (!well) fprintf(stderr, "%s: got \"%s\"\n", hex, why.text);
  return well;
}

static void test_requests_are_taken_apart(void) {
  frame f;
  CHECK(parse("94 00 2a a3616263 920102", &f) == LP_OK);
  CHECK(f.kind == FRAME_REQUEST && f.id == 42);
  CHECK(f.method_length == 3 && !memcmp(f.method, "abc", 3));
  CHECK(f.body_length == 3 && f.body[0] == 0x92 && !f.meta && !f.error);
  CHECK(parse("95 00 ceffffffff a0 90 8101c0", &f) == LP_OK);
  CHECK(f.id == UINT32_MAX && f.method_length == 0 && f.meta_length == 3 && f.meta[0] == 0x81);
  CHECK(parse("dc0004 cc00 d2 00000007 c40161 dd00000000", &f) == LP_OK);
  CHECK(f.id == 7 && f.method_length == 1 && f.body_length == 5);
}

static void test_responses_are_taken_apart(void) {
  frame f;
  CHECK(parse("94 01 05 c0 a26f6b", &f) == LP_OK);
  CHECK(f.kind == FRAME_RESPONSE && f.id == 5 && !f.error && f.body_length == 3);
  CHECK(parse("94 01 05 a26e6f c0", &f) == LP_OK);
  CHECK(f.error_length == 3 && f.error[0] == 0xa2 && f.body_length == 1);
}

static void test_notifications_are_taken_apart(void) {
  frame f;
  CHECK(parse("93 02 a161 90", &f) == LP_OK);
  CHECK(f.kind == FRAME_NOTIFY && f.method_length == 1 && !f.meta);
  CHECK(parse("94 02 a161 90 05", &f) == LP_OK && f.meta_length == 1);
}

static void test_what_is_no_frame_is_named(void) {
  CHECK(is_bad("", "truncated at offset 0"));
  CHECK(is_bad("05", "no array of three to five elements"));
  CHECK(is_bad("92 00 01", "no array of three to five elements"));
  CHECK(is_bad("96 00", "no array of three to five elements"));
  CHECK(is_bad("94 03 00 a0 90", "the kind is none of 0, 1, 2 at offset 1"));
  CHECK(is_bad("94 a0 00 a0 90", "the kind is none of 0, 1, 2 at offset 1"));
  CHECK(is_bad("94 00 ff a0 90", "the id is no uint32 at offset 2"));
  CHECK(is_bad("94 00 cf0000000100000000 a0 90", "the id is no uint32 at offset 2"));
  CHECK(is_bad("94 00 01 05 90", "the method is no string at offset 3"));
  CHECK(is_bad("93 00 01 a0", "wrong number of elements"));
  CHECK(is_bad("95 01 01 c0 c0 c0", "wrong number of elements"));
  CHECK(is_bad("95 02 a0 90 c0 c0", "wrong number of elements"));
  CHECK(is_bad("94 00 01 a561 90", "truncated"));
  CHECK(is_bad("94 00 01 a161", "truncated"));
  CHECK(is_bad("94 00 01 a161 93 01 02", "truncated"));
  CHECK(is_bad("94 00 01 a161 ddffffffff", "truncated"));
  CHECK(is_bad("94 00 01 a161 c6ffffffff", "truncated"));
  CHECK(is_bad("94 00 01 a161 91c1", "invalid byte c1 at offset 6"));
  CHECK(is_bad("94 00 01 a161 90 00", "trailing bytes at offset 6"));
}

static void test_heads_of_large_frames_are_peeked_at(void) {
  frame_kind kind;
  uint32_t id;
  uint8_t head[16];
  size_t length = from_hex("94 00 cd1234 a7", head);
  CHECK(frame_peek(head, length, &kind, &id) && kind == FRAME_REQUEST && id == 0x1234);
  CHECK(!frame_peek(head, 4, &kind, &id) && !frame_peek(head, 0, &kind, &id));
  length = from_hex("93 02 a7", head);
  CHECK(frame_peek(head, length, &kind, &id) && kind == FRAME_NOTIFY);
}

/* ---- building ----------------------------------------------------------------- */

static bool is_built(buffer *out, const char *hex) {
  uint8_t expected[256];
  size_t length = from_hex(hex, expected);
  bool same = out->length == length && !memcmp(out->data, expected, length);
  for (size_t i = 0; !same && i < out->length; i++) fprintf(stderr, "%02x ", out->data[i]);
  out->length = 0;
  return same;
}

static void test_frames_are_built(void) {
  buffer out = {0};
  size_t start;
  CHECK(frame_begin_request(&out, false, 300, "work", 4, false, &start) && start == 0);
  CHECK(frame_put_array(&out, 0));
  frame_end(&out, false, start);
  CHECK(is_built(&out, "94 00 cd012c a4776f726b 90"));
  CHECK(frame_put_nil(&out));
  CHECK(frame_begin_request(&out, true, 1, "w", 1, true, &start) && start == 1);
  CHECK(frame_put_array(&out, 1) && frame_put_boolean(&out, true) && frame_put_map(&out, 0));
  frame_end(&out, true, start);
  CHECK(is_built(&out, "c0 c900000008 20 95 00 01 a177 91c3 80"));
  CHECK(frame_begin_notify(&out, true, "n", 1, false, &start) && frame_put_array(&out, 0));
  frame_end(&out, true, start);
  CHECK(is_built(&out, "c900000005 20 93 02 a16e 90"));
  CHECK(frame_begin_notify(&out, false, "n", 1, true, &start) && frame_put_integer(&out, -5));
  CHECK(is_built(&out, "94 02 a16e fb"));
  CHECK(frame_begin_response(&out, true, 9, false, &start) && frame_put_string(&out, "ok", 2));
  frame_end(&out, true, start);
  CHECK(is_built(&out, "c900000007 20 94 01 09 c0 a26f6b"));
  CHECK(frame_begin_response(&out, false, 9, true, &start) && frame_put_string(&out, "no", 2));
  CHECK(frame_put_nil(&out));
  CHECK(is_built(&out, "94 01 09 a26e6f c0"));
  buffer_fini(&out);
}

/* ---- splitting ---------------------------------------------------------------- */

/* What a splitter handed out. */
typedef struct heard {
  buffer bytes; /* all frames' bytes */
  size_t frames, oversize, stop_after;
  uint64_t oversize_bytes;
  size_t head_length;
  const uint8_t *last; /* where the last frame lay */
  frame_splitter *wrap_after_first;
} heard;

static bool hear(void *owner, const uint8_t *data, size_t length) {
  heard *h = owner;
  buffer_append(&h->bytes, data, length);
  h->frames++;
  h->last = data;
  if (h->wrap_after_first) h->wrap_after_first->wrapped = true;
  return h->frames != h->stop_after;
}

static void hear_oversize(void *owner, uint64_t size, const uint8_t *head, size_t length) {
  heard *h = owner;
  uint32_t id;
  frame_kind kind;
  h->oversize++;
  h->oversize_bytes = size;
  h->head_length = length;
  CHECK(frame_peek(head, length, &kind, &id) && kind == FRAME_REQUEST && id == 77);
}

/* Appends a request whose body is a string of `size` bytes. */
static void append_request(buffer *stream, bool wrapped, uint32_t id, size_t size) {
  size_t start;
  char *text = calloc(1, size + 1);
  for (size_t i = 0; i < size; i++) text[i] = (char)('a' + i % 26);
  frame_begin_request(stream, wrapped, id, "method", 6, size % 2, &start);
  frame_put_array(stream, 3);
  frame_put_integer(stream, 100000);
  frame_put_string(stream, text, size);
  frame_put_map(stream, 0);
  if (size % 2) frame_put_integer(stream, -70000);
  frame_end(stream, wrapped, start);
  free(text);
}

enum { SIZES = 12 };
static const size_t sizes[SIZES] = {0, 1, 31, 32, 255, 256, 1000, 5, 32768, 70000, 3, 32767};

static buffer stream_of(bool wrapped, buffer *expected) {
  buffer stream = {0};
  for (size_t i = 0; i < SIZES; i++) {
    append_request(&stream, wrapped, (uint32_t)i * 1000, sizes[i]);
    append_request(expected, false, (uint32_t)i * 1000, sizes[i]);
  }
  return stream;
}

static uint64_t seed = 88172645463325252u;
static size_t chance(size_t below) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return (size_t)(seed >> 20) % below;
}

/* Feeds the bytes in pieces: `most` at most, of random size when `random`. Uses the
 * space of the splitter where it offers some, as a link does. */
static lp_status feed(frame_splitter *splitter, const buffer *stream, size_t most, bool random,
                      heard *h) {
  lp_status status = LP_OK;
  for (size_t at = 0; at < stream->length && status == LP_OK;) {
    size_t room = 0, step = random ? 1 + chance(most) : most;
    uint8_t *space = frame_splitter_space(splitter, &room);
    if (step > stream->length - at) step = stream->length - at;
    if (space && step > room) step = room;
    uint8_t *piece = space ? space : malloc(step);
    memcpy(piece, stream->data + at, step);
    status = space ? frame_split_stored(splitter, step, hear, hear_oversize, h, &why)
                   : frame_split(splitter, piece, step, hear, hear_oversize, h, &why);
    if (!space) free(piece);
    at += step;
  }
  return status;
}

static bool splits(bool wrapped, size_t most, bool random) {
  buffer expected = {0}, stream = stream_of(wrapped, &expected);
  frame_splitter splitter;
  heard h = {0};
  frame_splitter_init(&splitter, wrapped, 1 << 20);
  bool well = feed(&splitter, &stream, most, random, &h) == LP_OK && h.frames == SIZES &&
              h.bytes.length == expected.length &&
              !memcmp(h.bytes.data, expected.data, expected.length);
  well = well && splitter.partial.capacity == 0; /* nothing owned between frames */
  if (!well) fprintf(stderr, "wrapped %d, pieces of %zu: %s\n", wrapped, most, why.text);
  frame_splitter_fini(&splitter);
  buffer_fini(&h.bytes);
  buffer_fini(&stream);
  buffer_fini(&expected);
  return well;
}

static void test_frames_come_in_any_pieces(void) {
  for (int wrapped = 0; wrapped < 2; wrapped++) {
    for (size_t most = 1; most < 40; most++) CHECK(splits(wrapped, most, false));
    CHECK(splits(wrapped, 4096, false) && splits(wrapped, 32768, false));
    CHECK(splits(wrapped, SIZE_MAX, false));
    for (int i = 0; i < 300; i++) CHECK(splits(wrapped, (size_t)1 << (i % 18), true));
  }
}

static void test_whole_frames_are_handed_out_in_place(void) {
  for (int wrapped = 0; wrapped < 2; wrapped++) {
    buffer stream = {0};
    frame_splitter splitter;
    heard h = {0};
    frame_splitter_init(&splitter, wrapped, 1000);
    append_request(&stream, wrapped, 1, 10);
    size_t first = stream.length;
    append_request(&stream, wrapped, 2, 10);
    CHECK(frame_split(&splitter, stream.data, stream.length, hear, NULL, &h, &why) == LP_OK);
    CHECK(h.frames == 2 && splitter.partial.data == NULL);
    CHECK(h.last == stream.data + first + (wrapped ? FRAME_PREFIX : 0));
    buffer_fini(&stream);
    buffer_fini(&h.bytes);
  }
}

static void test_large_frames_are_read_into_their_place(void) {
  for (int wrapped = 0; wrapped < 2; wrapped++) {
    buffer stream = {0};
    frame_splitter splitter;
    heard h = {0};
    size_t size = 0, copied = 0;
    uint8_t *space;
    frame_splitter_init(&splitter, wrapped, 4 << 20);
    CHECK(frame_splitter_space(&splitter, &size) == NULL);
    append_request(&stream, wrapped, 1, 3 << 20);
    size_t at = 100;
    CHECK(frame_split(&splitter, stream.data, at, hear, NULL, &h, &why) == LP_OK);
    /* A peer that announces much and sends little costs little. */
    space = frame_splitter_space(&splitter, &size);
    CHECK(space && splitter.partial.capacity <= 2 << 20);
    while ((space = frame_splitter_space(&splitter, &size))) {
      memcpy(space, stream.data + at, size);
      CHECK(frame_split_stored(&splitter, size, hear, NULL, &h, &why) == LP_OK);
      at += size;
      copied += size;
    }
    CHECK(copied > (3 << 20) - 200);
    CHECK(frame_split(&splitter, stream.data + at, stream.length - at, hear, NULL, &h, &why) ==
          LP_OK);
    CHECK(h.frames == 1 && h.bytes.length == stream.length - (wrapped ? FRAME_PREFIX : 0));
    CHECK(splitter.partial.capacity == 0);
    buffer_fini(&stream);
    buffer_fini(&h.bytes);
    frame_splitter_fini(&splitter);
  }
}

/* A request with a long string of 'x' behind a name of `name` bytes and, if `more`, before
 * another value. */
static void append_long(buffer *stream, size_t name, size_t size, bool more) {
  size_t start;
  char *text = malloc(size + name);
  memset(text, 'x', size + name);
  frame_begin_request(stream, true, 77, text, name, false, &start);
  frame_put_array(stream, more ? 3 : 2);
  frame_put_integer(stream, 1000);
  frame_put_string(stream, text, size);
  if (more) frame_put_nil(stream);
  frame_end(stream, true, start);
  free(text);
}

typedef struct placed {
  frame_splitter splitter;
  size_t size, frames, strings; /* its frames, those with a string known to be long */
} placed;

static bool hear_placed(void *owner, const uint8_t *data, size_t length) {
  placed *p = owner;
  frame f;
  const buffer *memory = &p->splitter.partial;
  p->frames++;
  CHECK(frame_parse(data, length, &f, &why) == LP_OK);
  if (!p->splitter.string_length) return true;
  p->strings++;
  size_t at = p->splitter.string_at;
  CHECK(p->splitter.string_length == p->size && at >= ADOPTED_BEFORE);
  CHECK((uintptr_t)(memory->data + at) % ADOPTED_STEP == 0 && at + p->size < memory->capacity);
  CHECK(memory->data + at + p->size <= data + length && memory->data[at] == 'x');
  CHECK(memory->data[at - 1] != 'x' && memory->data[at + p->size - 1] == 'x');
  return true;
}

/* The next piece of the stream, from `at` on; how long it was. */
static size_t feed_next(placed *p, const buffer *stream, size_t at) {
  size_t size;
  uint8_t *space = frame_splitter_space(&p->splitter, &size);
  if (space) {
    CHECK(size <= stream->length - at);
    memcpy(space, stream->data + at, size);
    CHECK(frame_split_stored(&p->splitter, size, hear_placed, NULL, p, &why) == LP_OK);
    return size;
  }
  size = stream->length - at < 60000 ? stream->length - at : 60000;
  CHECK(frame_split(&p->splitter, stream->data + at, size, hear_placed, NULL, p, &why) == LP_OK);
  return size;
}

/* Feeds a frame with a long string, in the first piece `first` bytes. */
static void place_long(placed *p, size_t name, size_t first, bool more) {
  buffer stream = {0};
  append_long(&stream, name, p->size, more);
  if (first > stream.length) first = stream.length;
  frame_splitter_init(&p->splitter, true, 64 << 20);
  CHECK(frame_split(&p->splitter, stream.data, first, hear_placed, NULL, p, &why) == LP_OK);
  for (size_t at = first; at < stream.length;) at += feed_next(p, &stream, at);
  CHECK(p->splitter.partial.capacity == 0 && p->splitter.string_length == 0);
  frame_splitter_fini(&p->splitter);
  buffer_fini(&stream);
}

static void test_long_strings_lie_where_they_can_be_adopted(void) {
  placed p = {.size = ADOPTED_LEAST + 100};
  for (size_t name = 0; name < 70; name++) place_long(&p, name, 200, name % 2);
  CHECK(p.frames == 70 && p.strings == 70);
  p.size = 9 << 20; /* its room is made in steps */
  place_long(&p, 4, 65536, false);
  CHECK(p.frames == 71 && p.strings == 71);
}

/* Of short strings, or if the head came in parts, nothing is known. */
static void test_other_frames_lie_anyhow(void) {
  placed p = {.size = ADOPTED_LEAST + 100};
  for (size_t first = 1; first < 20; first++) place_long(&p, 4, first, false);
  CHECK(p.frames == 19 && p.strings == 0);
  p.size = ADOPTED_LEAST - 1;
  place_long(&p, 4, 200, false);
  CHECK(p.frames == 20 && p.strings == 0);
}

static void test_oversize_wrapped_frames_are_skipped(void) {
  buffer stream = {0}, frames = {0};
  append_request(&stream, true, 1, 10);
  append_request(&stream, true, 77, 100000);
  append_request(&stream, true, 2, 11);
  append_request(&stream, true, 77, 1001);
  append_request(&stream, true, 77, 1002);
  append_request(&frames, false, 1, 10);
  append_request(&frames, false, 2, 11);
  for (size_t most = 1; most < 200000; most = most * 3 + 1) {
    frame_splitter splitter;
    heard h = {0};
    frame_splitter_init(&splitter, true, 1000);
    CHECK(feed(&splitter, &stream, most, false, &h) == LP_OK);
    CHECK(h.frames == 2 && h.oversize == 3 && h.head_length == 64 && h.oversize_bytes < 1100);
    CHECK(h.bytes.length == frames.length && !memcmp(h.bytes.data, frames.data, frames.length));
    CHECK(splitter.partial.capacity == 0 && splitter.skip == 0);
    buffer_fini(&h.bytes);
  }
  buffer_fini(&stream);
  buffer_fini(&frames);
}

static void test_a_frame_of_exactly_the_limit_passes(void) {
  for (int wrapped = 0; wrapped < 2; wrapped++)
    for (size_t most = 1; most < 5000; most = most * 3 + 1) {
      buffer stream = {0};
      frame_splitter splitter;
      heard h = {0};
      append_request(&stream, wrapped, 77, 1000);
      size_t length = stream.length - (wrapped ? FRAME_PREFIX : 0);
      frame_splitter_init(&splitter, wrapped, length);
      CHECK(feed(&splitter, &stream, most, false, &h) == LP_OK && h.frames == 1);
      frame_splitter_fini(&splitter);
      frame_splitter_init(&splitter, wrapped, length - 1);
      lp_status status = feed(&splitter, &stream, most, false, &h);
      CHECK(status == (wrapped ? LP_OK : LP_RESOURCE_EXHAUSTED) && h.frames == 1);
      frame_splitter_fini(&splitter);
      buffer_fini(&stream);
      buffer_fini(&h.bytes);
    }
}

static bool is_refused(bool wrapped, const char *hex, lp_status status, const char *text) {
  uint8_t bytes[64];
  size_t length = from_hex(hex, bytes);
  bool well = true;
  for (size_t most = 1; most <= length; most++) {
    frame_splitter splitter;
    heard h = {0};
    buffer stream = {.data = bytes, .length = length};
    frame_splitter_init(&splitter, wrapped, 1000);
    well = well && feed(&splitter, &stream, most, false, &h) == status && strstr(why.text, text);
    frame_splitter_fini(&splitter);
    buffer_fini(&h.bytes);
  }
  if (!well) fprintf(stderr, "%s: got \"%s\"\n", hex, why.text);
  return well;
}

static void test_streams_of_something_else_are_refused(void) {
  static const char other[] = "does not speak MessagePack-RPC";
  CHECK(is_refused(false, "47 45 54 20 2f", LP_INVALID_ARGUMENT, other)); /* GET / */
  CHECK(is_refused(false, "c900000008 20 95", LP_INVALID_ARGUMENT, other));
  CHECK(is_refused(false, "92 00 00", LP_INVALID_ARGUMENT, other));
  CHECK(is_refused(false, "94 00 c1", LP_INVALID_ARGUMENT, "invalid byte c1"));
  CHECK(is_refused(false, "94 00 01 a0 ddffffffff", LP_RESOURCE_EXHAUSTED, "message too large"));
  CHECK(is_refused(false, "94 00 01 a0 dfffffffff", LP_RESOURCE_EXHAUSTED, "message too large"));
  CHECK(is_refused(false, "94 00 01 c6ffffffff", LP_RESOURCE_EXHAUSTED, "message too large"));
  CHECK(is_refused(true, "94 00 01 a0 90 00 00", LP_INVALID_ARGUMENT, "out of step"));
  CHECK(is_refused(true, "c9 00000001 21 00", LP_INVALID_ARGUMENT, "out of step"));
}

static void test_the_rule_changes_between_two_frames(void) {
  buffer stream = {0};
  append_request(&stream, false, 1, 20);
  append_request(&stream, true, 2, 300);
  append_request(&stream, true, 3, 0);
  for (size_t most = 1; most < 1000; most++) {
    frame_splitter splitter;
    heard h = {.wrap_after_first = &splitter};
    frame_splitter_init(&splitter, false, 1000);
    CHECK(feed(&splitter, &stream, most, false, &h) == LP_OK && h.frames == 3);
    buffer_fini(&h.bytes);
  }
  buffer_fini(&stream);
}

static void test_a_sink_can_stop_the_feeding(void) {
  buffer expected = {0}, stream = stream_of(true, &expected);
  frame_splitter splitter;
  heard h = {.stop_after = 3};
  frame_splitter_init(&splitter, true, 1 << 20);
  CHECK(frame_split(&splitter, stream.data, stream.length, hear, NULL, &h, &why) == LP_OK);
  CHECK(h.frames == 3);
  frame_splitter_fini(&splitter);
  buffer_fini(&h.bytes);
  buffer_fini(&stream);
  buffer_fini(&expected);
}

/* Whatever comes, what a splitter hands out lies within what it was given. */
static void test_garbage_is_survived(void) {
  for (int i = 0; i < 30000; i++) {
    frame_splitter splitter;
    heard h = {0};
    frame f;
    uint8_t bytes[80];
    buffer stream = {.data = bytes, .length = chance(sizeof bytes)};
    for (size_t k = 0; k < stream.length; k++) bytes[k] = (uint8_t)chance(256);
    if (stream.length > 1) memcpy(bytes, "\x94\x00", 2);
    frame_parse(bytes, stream.length, &f, &why);
    frame_splitter_init(&splitter, false, 1000);
    feed(&splitter, &stream, 7, true, &h);
    CHECK(h.bytes.length <= stream.length);
    frame_splitter_fini(&splitter);
    buffer_fini(&h.bytes);
  }
}

/* `quick` is what frame_open gave: a time may still lie behind the body. */
static bool same_frame(const frame *whole, const frame *quick) {
  frame taken = *quick;
  const frame *a = whole, *b = &taken;
  if (quick->timed) {
    taken.meta = a->meta;
    taken.meta_length = a->meta_length;
    taken.body_length -= a->meta_length;
    if (a->meta != b->body + b->body_length) return false;
  }
  bool called = a->kind != FRAME_RESPONSE;
  return a->kind == b->kind && (a->kind == FRAME_NOTIFY || a->id == b->id) &&
         (!called || (a->method == b->method && a->method_length == b->method_length)) &&
         a->body == b->body && a->body_length == b->body_length && a->error == b->error &&
         a->error_length == b->error_length && a->meta == b->meta &&
         a->meta_length == b->meta_length;
}

/* What frame_next finds in a wrapped frame is what frame_open does; `exactly` when it must find it.
 */
static void check_next(const uint8_t *bytes, size_t length, bool exactly) {
  uint8_t *wrapped = malloc(FRAME_PREFIX + length);
  const uint8_t prefix[FRAME_PREFIX] = {0xc9,
                                        (uint8_t)(length >> 24),
                                        (uint8_t)(length >> 16),
                                        (uint8_t)(length >> 8),
                                        (uint8_t)length,
                                        CODEC_EXT_FRAME};
  frame next, opened;
  memcpy(wrapped, prefix, sizeof prefix);
  memcpy(wrapped + FRAME_PREFIX, bytes, length);
  size_t found = frame_next(wrapped, FRAME_PREFIX + length, 1 << 20, &next);
  CHECK(found == length || (!exactly && found == 0));
  if (found) {
    CHECK(frame_open(wrapped + FRAME_PREFIX, length, &opened, NULL) == LP_OK);
    CHECK(next.timed == opened.timed);
    next.timed = opened.timed = false; /* both have the time behind the body */
    CHECK(same_frame(&opened, &next));
  }
  CHECK(!frame_next(wrapped, FRAME_PREFIX + length - 1, 1 << 20, &next));
  CHECK(!frame_next(wrapped, FRAME_PREFIX + length, length - 1, &next));
  free(wrapped);
}

static void test_frames_are_opened_as_they_are_parsed(void) {
  static const char *const frames[] = {"94 00 2a a3616263 920102",
                                       "94 00 cd1234 a4656367f6 90",
                                       "94 00 ce00012345 a161 91c0",
                                       "95 00 2a a3616263 920102 9105",
                                       "94 01 05 c0 93010203",
                                       "94 01 cc81 c0 91a26f6b",
                                       "94 01 05 a26e6f c0",
                                       "94 02 a161 90 05",
                                       "93 02 a161 91a162",
                                       "94 00 05 a0 91a16291",
                                       "94 00 cf0000000000000005 a161 90"};
  for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
    frame whole, opened;
    uint8_t bytes[64];
    size_t length = from_hex(frames[i], bytes);
    lp_status status = frame_parse(bytes, length, &whole, &why);
    if (status != LP_OK) continue; /* only its body can be at fault */
    CHECK(frame_open(bytes, length, &opened, &why) == LP_OK && same_frame(&whole, &opened));
    check_next(bytes, length, false);
  }
  frame f;
  uint8_t bytes[64];
  size_t length = from_hex("94 00 05 a3616263 93010203", bytes);
  check_next(bytes, length, true);
  length = from_hex("95 00 ce00012345 a3616263 93010203 9105", bytes);
  check_next(bytes, length, true);
  length = from_hex("94 01 cd1234 c0 93010203", bytes);
  check_next(bytes, length, true);
  length = from_hex("93 02 a3616263 93010203", bytes);
  check_next(bytes, length, true);
  length = from_hex("94 00 05 a161 93 01 02", bytes);
  CHECK(frame_open(bytes, length, &f, &why) == LP_OK && f.body_length == 3);
  static const char *const untidy[] = {"94 00 05 a3616263 9301 02", "95 00 05 a3616263 90 9105 00",
                                       "94 01 cd1234 c0 9301", "93 02 a3616263 93 01 02",
                                       "93 02 a3616263 90 00 00"};
  for (size_t i = 0; i < sizeof untidy / sizeof *untidy; i++) {
    length = from_hex(untidy[i], bytes);
    CHECK(frame_parse(bytes, length, &f, &why) == LP_INVALID_ARGUMENT);
    check_next(bytes, length, true); /* they are treated alike however the bytes were cut */
  }
  length = from_hex("94 00 05 a861626364 00", bytes);
  CHECK(frame_open(bytes, length, &f, &why) == LP_INVALID_ARGUMENT);
}

static void test_what_is_split_can_be_parsed_or_refused(void) {
  buffer stream = {0};
  append_request(&stream, false, 5, 40);
  for (int i = 0; i < 30000; i++) {
    frame f, opened;
    size_t at = chance(stream.length), length = chance(stream.length + 1);
    stream.data[at] ^= (uint8_t)(1u << chance(8));
    uint8_t *exact = malloc(length + 1);
    memcpy(exact, stream.data, length);
    if (frame_parse(exact, length, &f, &why) == LP_OK) {
      CHECK(f.body + f.body_length <= exact + length);
      CHECK(frame_open(exact, length, &opened, &why) == LP_OK && same_frame(&f, &opened));
      check_next(exact, length, false);
    } else if (frame_open(exact, length, &opened, &why) == LP_OK) {
      CHECK(opened.body + opened.body_length == exact + length && opened.body_length);
      CHECK(opened.method + opened.method_length <= (const char *)opened.body);
    }
    free(exact);
    if (i % 8 == 0) {
      stream.length = 0;
      append_request(&stream, false, 5, 40);
    }
  }
  buffer_fini(&stream);
}

int main(void) {
  RUN(test_requests_are_taken_apart);
  RUN(test_responses_are_taken_apart);
  RUN(test_notifications_are_taken_apart);
  RUN(test_what_is_no_frame_is_named);
  RUN(test_heads_of_large_frames_are_peeked_at);
  RUN(test_frames_are_built);
  RUN(test_frames_come_in_any_pieces);
  RUN(test_whole_frames_are_handed_out_in_place);
  RUN(test_large_frames_are_read_into_their_place);
  RUN(test_long_strings_lie_where_they_can_be_adopted);
  RUN(test_other_frames_lie_anyhow);
  RUN(test_oversize_wrapped_frames_are_skipped);
  RUN(test_a_frame_of_exactly_the_limit_passes);
  RUN(test_streams_of_something_else_are_refused);
  RUN(test_the_rule_changes_between_two_frames);
  RUN(test_a_sink_can_stop_the_feeding);
  RUN(test_garbage_is_survived);
  RUN(test_frames_are_opened_as_they_are_parsed);
  RUN(test_what_is_split_can_be_parsed_or_refused);
  return TEST_END();
}
