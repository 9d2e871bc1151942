/* RPC frames: taking apart and building; see frame.h. */
#include "wire/frame.h"

#include "base/bytes.h"
#include "base/hot.h"
#include "wire/codec.h"
#include "wire/token.h"

/* ---- parsing ---------------------------------------------------------------- */

typedef struct cursor {
  const uint8_t *begin, *at, *end;
  fault *why;
} cursor;

static size_t at_hand(const cursor *c) {
  return (size_t)(c->end - c->at);
}

COLD static void report(const cursor *c, const char *what) {
  fault_set(c->why, LP_INVALID_ARGUMENT, "not a frame: %s at offset %zu", what,
            (size_t)(c->at - c->begin));
}

/* Always false, and here for the compiler to see it. */
static inline bool refuse(const cursor *c, const char *what) {
  report(c, what);
  return false;
}

static inline bool refuse_token(const cursor *c, token_state state) {
  return refuse(c, state == TOKEN_SHORT ? "truncated" : "invalid byte c1");
}

/* Passes the head of the next value. */
static inline bool next(cursor *c, token *t) {
  token_state state = token_read(c->at, at_hand(c), t);
  if (state != TOKEN_READ) return refuse_token(c, state);
  c->at += t->head;
  return true;
}

/* Passes one complete value, whatever is nested in it. */
static bool skip_value(cursor *c, const uint8_t **value, size_t *length) {
  const uint8_t *begin = c->at, *at = begin, *end = c->end; /* to be kept in registers */
  for (uint64_t open = 1; open; open--) {
    token t;
    c->at = at; /* for refusals */
    token_state state = token_read(at, (size_t)(end - at), &t);
    if (state != TOKEN_READ) return refuse_token(c, state);
    at += t.head;
    /* One of the two is 0. Each promised value takes a byte, which also keeps the sum from
     * overflowing. */
    uint64_t payload = token_payload(&t), children = token_children(&t);
    if (payload + children > (uint64_t)(end - at)) return refuse(c, "truncated");
    at += payload;
    open += children;
  }
  *value = begin;
  *length = (size_t)(at - begin);
  c->at = at;
  return true;
}

/* A number of at most `limit` in any of the integer forms. */
static bool read_number(cursor *c, uint64_t limit, const char *what, uint32_t *number) {
  token t;
  const uint8_t *at = c->at;
  if (!next(c, &t)) return false;
  bool fits = t.value <= limit && (t.kind == TOKEN_UNSIGNED || t.kind == TOKEN_SIGNED);
  *number = (uint32_t)t.value;
  if (fits) return true;
  c->at = at;
  return refuse(c, what);
}

static bool read_method(cursor *c, frame *out) {
  token t;
  const uint8_t *at = c->at;
  if (!next(c, &t)) return false;
  if (t.kind != TOKEN_STRING && t.kind != TOKEN_BINARY) {
    c->at = at;
    return refuse(c, "the method is no string");
  }
  if (t.value > at_hand(c)) return refuse(c, "truncated");
  out->method = (const char *)c->at;
  out->method_length = (size_t)t.value;
  c->at += t.value;
  return true;
}

/* Array header and kind; `elements` is what is left of the array after the kind. */
static bool read_kind(cursor *c, frame *out, uint64_t *elements) {
  token t;
  uint32_t kind;
  if (!next(c, &t)) return false;
  if (t.kind != TOKEN_ARRAY || t.value < 3 || t.value > 5) {
    c->at = c->begin;
    return refuse(c, "no array of three to five elements");
  }
  if (!read_number(c, FRAME_NOTIFY, "the kind is none of 0, 1, 2", &kind)) return false;
  out->kind = (frame_kind)kind;
  *elements = t.value - 1;
  return true;
}

static bool read_call(cursor *c, frame *out, uint64_t elements) {
  bool request = out->kind == FRAME_REQUEST;
  uint64_t plain = request ? 3 : 2;
  if (elements < plain || elements > plain + 1) return refuse(c, "wrong number of elements");
  if (request && !read_number(c, UINT32_MAX, "the id is no uint32", &out->id)) return false;
  if (!read_method(c, out) || !skip_value(c, &out->body, &out->body_length)) return false;
  return elements == plain || skip_value(c, &out->meta, &out->meta_length);
}

static bool read_response(cursor *c, frame *out, uint64_t elements) {
  if (elements != 3) return refuse(c, "wrong number of elements");
  if (!read_number(c, UINT32_MAX, "the id is no uint32", &out->id)) return false;
  if (at_hand(c) && *c->at == 0xc0)
    c->at++; /* no error */
  else if (!skip_value(c, &out->error, &out->error_length))
    return false;
  return skip_value(c, &out->body, &out->body_length);
}

lp_status frame_parse(const uint8_t *data, size_t length, frame *out, fault *why) {
  fault local;
  cursor c = {.begin = data, .at = data, .end = data + length, .why = why ? why : &local};
  uint64_t elements;
  *out = (frame){0};
  if (!read_kind(&c, out, &elements)) return c.why->status;
  bool well =
      out->kind == FRAME_RESPONSE ? read_response(&c, out, elements) : read_call(&c, out, elements);
  if (well && c.at != c.end) well = refuse(&c, "trailing bytes");
  return well ? LP_OK : c.why->status;
}

/* The id in the forms this engine writes, of at least 5 bytes at hand; NULL: in another form. */
static const uint8_t *open_short_id(const uint8_t *at, uint32_t *id) {
  unsigned first = *at++;
  *id = first;
  if (first < 0x80) return at;
  if (first != 0xcc && first != 0xcd) return NULL;
  *id = (uint32_t)token_load(at, first - 0xcb);
  return at + (first - 0xcb);
}

/* Those of calls are of the longest form, see FIRST_ID in peer.c. */
static inline const uint8_t *open_id(const uint8_t *at, uint32_t *id) {
  if (UNLIKELY(*at != 0xce)) return open_short_id(at, id);
  *id = __builtin_bswap32(bytes_load_4(at + 1));
  return at + 5;
}

/* Takes off what precedes the body in the forms this engine writes: `at` is behind the kind. False:
 * it is in another form. */
static inline bool open_head(const uint8_t *at, const uint8_t *end, frame_kind kind, frame *out) {
  out->id = 0;
  if (kind != FRAME_NOTIFY && !(at = open_id(at, &out->id))) return false;
  size_t first = *at++, length = kind == FRAME_RESPONSE ? 0 : first - 0xa0; /* of the method */
  bool fits = kind == FRAME_RESPONSE ? first == 0xc0 /* no error */ : length <= 0x1f;
  if (UNLIKELY(!fits || length >= (size_t)(end - at))) return false;
  out->kind = kind;
  out->method = (const char *)at;
  out->method_length = length;
  out->body = at + length;
  out->body_length = (size_t)(end - out->body);
  out->error = out->meta = NULL;
  out->error_length = out->meta_length = 0;
  return true;
}

/* Is it of one of the forms that open_head knows? */
static bool is_plain(const uint8_t *data, size_t length) {
  if (length < 8) return false;
  if (data[0] == 0x95) return data[1] == FRAME_REQUEST;
  if (data[0] == 0x94) return data[1] == FRAME_REQUEST || data[1] == FRAME_RESPONSE;
  return data[0] == 0x93 && data[1] == FRAME_NOTIFY;
}

lp_status frame_open(const uint8_t *data, size_t length, frame *out, fault *why) {
  if (!is_plain(data, length) || !open_head(data + 2, data + length, (frame_kind)data[1], out))
    return frame_parse(data, length, out, why);
  out->timed = data[0] == 0x95;
  return LP_OK;
}

/* The first bytes of a wrapped frame, but for its length. */
#define FORM(elements, kind) \
  { 0xc9, 0, 0, 0, 0, CODEC_EXT_FRAME, 0x90 | (elements), (kind) }

HOT_SHARED size_t frame_next(const uint8_t *data, size_t length, size_t limit, frame *out) {
  static const uint8_t known[8] = {0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff},
                       request[8] = FORM(4, FRAME_REQUEST), timed[8] = FORM(5, FRAME_REQUEST),
                       response[8] = FORM(4, FRAME_RESPONSE), notify[8] = FORM(3, FRAME_NOTIFY);
  if (UNLIKELY(length < FRAME_PREFIX + 8)) return 0;
  uint64_t form = bytes_load_8(data) & bytes_load_8(known);
  size_t size = __builtin_bswap32(bytes_load_4(data + 1));
  if (UNLIKELY(size < 8 || size > length - FRAME_PREFIX || size > limit)) return 0;
  frame_kind kind = FRAME_RESPONSE;
  if (form != bytes_load_8(response)) {
    kind = form == bytes_load_8(notify) ? FRAME_NOTIFY : FRAME_REQUEST;
    out->timed = form == bytes_load_8(timed);
    if (kind == FRAME_REQUEST && !out->timed && form != bytes_load_8(request)) return 0;
  } else {
    out->timed = false;
  }
  return open_head(data + 8, data + FRAME_PREFIX + size, kind, out) ? size : 0;
}

lp_status frame_take_time(frame *frame, fault *why) {
  if (!frame->timed) return LP_OK;
  cursor c = {
      .begin = frame->body, .at = frame->body, .end = frame->body + frame->body_length, .why = why};
  const uint8_t *body;
  if (!skip_value(&c, &body, &frame->body_length) ||
      !skip_value(&c, &frame->meta, &frame->meta_length))
    return why->status;
  if (c.at != c.end) return fault_set(why, LP_INVALID_ARGUMENT, "not a frame: trailing bytes");
  frame->timed = false;
  return LP_OK;
}

bool frame_body_whole(const frame *frame) {
  fault ignored;
  cursor c = {.begin = frame->body,
              .at = frame->body,
              .end = frame->body + frame->body_length,
              .why = &ignored};
  const uint8_t *value;
  size_t length;
  return skip_value(&c, &value, &length) && c.at == c.end;
}

bool frame_peek(const uint8_t *head, size_t length, frame_kind *kind, uint32_t *id) {
  cursor c = {.begin = head, .at = head, .end = head + length};
  frame found = {0};
  uint64_t elements;
  if (!read_kind(&c, &found, &elements)) return false;
  *kind = found.kind;
  *id = 0;
  return found.kind == FRAME_NOTIFY || read_number(&c, UINT32_MAX, "", id);
}

/* ---- building --------------------------------------------------------------- */

/* Array, kind, id and method header at their longest. */
enum { HEAD_MAX = 1 + 1 + 5 + TOKEN_HEAD_MAX };

/* Room for prefix, head and `extra` bytes; the place of the head, or NULL. */
static uint8_t *begin(buffer *out, bool wrapped, size_t extra, size_t *start) {
  size_t prefix = wrapped ? FRAME_PREFIX : 0;
  if (extra > UINT32_MAX || !buffer_reserve(out, prefix + HEAD_MAX + extra)) return NULL;
  *start = out->length;
  return out->data + out->length + prefix;
}

static void commit(buffer *out, const uint8_t *end) {
  out->length = (size_t)(end - out->data);
}

static void put_text(buffer *out, uint8_t *at, const char *method, size_t length) {
  at = token_put_str(at, (uint32_t)length);
  if (length) memcpy(at, method, length);
  commit(out, at + length);
}

bool frame_begin_request(buffer *out, bool wrapped, uint32_t id, const char *method,
                         size_t method_length, bool with_meta, size_t *start) {
  uint8_t *at = begin(out, wrapped, method_length, start);
  if (!at) return false;
  at = token_put_array(at, with_meta ? 5 : 4);
  at = token_put_integer(at, FRAME_REQUEST);
  at = token_put_integer(at, id);
  put_text(out, at, method, method_length);
  return true;
}

bool frame_begin_notify(buffer *out, bool wrapped, const char *method, size_t method_length,
                        bool with_meta, size_t *start) {
  uint8_t *at = begin(out, wrapped, method_length, start);
  if (!at) return false;
  at = token_put_array(at, with_meta ? 4 : 3);
  at = token_put_integer(at, FRAME_NOTIFY);
  put_text(out, at, method, method_length);
  return true;
}

bool frame_begin_response(buffer *out, bool wrapped, uint32_t id, bool failed, size_t *start) {
  uint8_t *at = begin(out, wrapped, 0, start);
  if (!at) return false;
  at = token_put_array(at, 4);
  at = token_put_integer(at, FRAME_RESPONSE);
  at = token_put_integer(at, id);
  commit(out, failed ? at : token_put_nil(at));
  return true;
}

void frame_end_around(buffer *out, size_t start, size_t left_out) {
  uint8_t *prefix = out->data + start;
  size_t length = out->length - start - FRAME_PREFIX + left_out;
  *token_put_32(prefix, 0xc9, (uint32_t)length) = CODEC_EXT_FRAME;
}

void frame_end(buffer *out, bool wrapped, size_t start) {
  if (wrapped) frame_end_around(out, start, 0);
}

bool frame_put_nil(buffer *out) {
  if (!buffer_reserve(out, 1)) return false;
  commit(out, token_put_nil(out->data + out->length));
  return true;
}

bool frame_put_array(buffer *out, uint32_t count) {
  if (!buffer_reserve(out, TOKEN_HEAD_MAX)) return false;
  commit(out, token_put_array(out->data + out->length, count));
  return true;
}

bool frame_put_map(buffer *out, uint32_t count) {
  if (!buffer_reserve(out, TOKEN_HEAD_MAX)) return false;
  commit(out, token_put_map(out->data + out->length, count));
  return true;
}

bool frame_put_string(buffer *out, const char *text, size_t length) {
  if (length > UINT32_MAX || !buffer_reserve(out, length + TOKEN_HEAD_MAX)) return false;
  put_text(out, out->data + out->length, text, length);
  return true;
}

bool frame_put_integer(buffer *out, int64_t value) {
  if (!buffer_reserve(out, TOKEN_SCALAR_MAX)) return false;
  commit(out, token_put_integer(out->data + out->length, value));
  return true;
}

bool frame_put_boolean(buffer *out, bool value) {
  if (!buffer_reserve(out, 1)) return false;
  commit(out, token_put_boolean(out->data + out->length, value));
  return true;
}
