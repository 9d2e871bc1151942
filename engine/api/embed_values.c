/* Values of C: a list that is written and read as MessagePack, so that a call's arguments go
 * into the link's buffer, and its results are read there, without an interpreter between. A
 * reader trusts no length it has not compared with the bytes at hand. See lp.h. */

#include "api/embed.h"
#include "base/memory.h"
#include "wire/codec.h"
#include "wire/text.h"
#include "wire/token.h"

enum { DEPTH_MAX = sizeof((lp_values *)0)->missing / sizeof(size_t) };

/* ---- the list --------------------------------------------------------------- */

lp_values *lp_values_new(void) {
  return mem_new(sizeof(lp_values));
}

void lp_values_free(lp_values *values) {
  if (!values) return;
  buffer_fini(&values->bytes);
  mem_free(values);
}

void lp_values_clear(lp_values *values) {
  if (!values) return;
  values->bytes.length = values->count = 0;
  values->depth = 0;
}

size_t lp_values_count(const lp_values *values) {
  return values ? values->count : 0;
}

lp_status values_check(const lp_values *values, const char *what) {
  if (!values || values->depth == 0) return LP_OK;
  return embed_fail(LP_INVALID_ARGUMENT,
                    "%s: the values are not complete: an array or map lacks %zu", what,
                    values->missing[values->depth - 1]);
}

/* Room for a value of at most `bytes`; NULL with the message set. */
static uint8_t *begin(lp_values *values, size_t bytes, const char *what) {
  if (!values) {
    embed_fail(LP_INVALID_ARGUMENT, "%s: values is NULL", what);
    return NULL;
  }
  if (!buffer_reserve(&values->bytes, bytes)) {
    embed_fail(LP_RESOURCE_EXHAUSTED, "%s: no memory for %zu bytes", what, bytes);
    return NULL;
  }
  return values->bytes.data + values->bytes.length;
}

/* A value ends at `end`; containers that it completes are closed. */
static lp_status finish(lp_values *values, const uint8_t *end) {
  values->bytes.length = (size_t)(end - values->bytes.data);
  if (values->depth == 0)
    values->count++;
  else
    values->missing[values->depth - 1]--;
  while (values->depth > 0 && values->missing[values->depth - 1] == 0) values->depth--;
  return LP_OK;
}

/* begin has failed: its status, from what it was given. */
static lp_status unmade(const lp_values *values) {
  return values ? LP_RESOURCE_EXHAUSTED : LP_INVALID_ARGUMENT;
}

lp_status lp_push_nil(lp_values *values) {
  uint8_t *at = begin(values, 1, "lp_push_nil");
  return at ? finish(values, token_put_nil(at)) : unmade(values);
}

lp_status lp_push_boolean(lp_values *values, bool value) {
  uint8_t *at = begin(values, 1, "lp_push_boolean");
  return at ? finish(values, token_put_boolean(at, value)) : unmade(values);
}

lp_status lp_push_integer(lp_values *values, int64_t value) {
  uint8_t *at = begin(values, TOKEN_SCALAR_MAX, "lp_push_integer");
  return at ? finish(values, token_put_integer(at, value)) : unmade(values);
}

lp_status lp_push_number(lp_values *values, double value) {
  uint8_t *at = begin(values, TOKEN_SCALAR_MAX, "lp_push_number");
  return at ? finish(values, token_put_double(at, value)) : unmade(values);
}

lp_status lp_push_bytes(lp_values *values, const void *bytes, size_t length) {
  if (!bytes && length > 0)
    return embed_fail(LP_INVALID_ARGUMENT, "lp_push_bytes: bytes is NULL, length %zu", length);
  if (length > UINT32_MAX)
    return embed_fail(LP_INVALID_ARGUMENT, "lp_push_bytes: %zu bytes are more than 4 GiB", length);
  uint8_t *at = begin(values, length + TOKEN_HEAD_MAX, "lp_push_bytes");
  if (!at) return unmade(values);
  at = text_is_utf8(bytes, length) ? token_put_str(at, (uint32_t)length)
                                   : token_put_bin(at, (uint32_t)length);
  if (length) memcpy(at, bytes, length);
  return finish(values, at + length);
}

lp_status lp_push_string(lp_values *values, const char *text) {
  if (!text) return embed_fail(LP_INVALID_ARGUMENT, "lp_push_string: text is NULL");
  return lp_push_bytes(values, text, strlen(text));
}

static lp_status push_container(lp_values *values, size_t count, size_t each, const char *what) {
  if (count > UINT32_MAX)
    return embed_fail(LP_INVALID_ARGUMENT, "%s: %zu elements are too many", what, count);
  uint8_t *at = begin(values, TOKEN_HEAD_MAX, what);
  if (!at) return unmade(values);
  if (count > 0 && values->depth == DEPTH_MAX)
    return embed_fail(LP_INVALID_ARGUMENT, "%s: nested more than %d deep", what, (int)DEPTH_MAX);
  at = each == 1 ? token_put_array(at, (uint32_t)count) : token_put_map(at, (uint32_t)count);
  if (count == 0) return finish(values, at);
  values->bytes.length = (size_t)(at - values->bytes.data);
  if (values->depth == 0)
    values->count++;
  else
    values->missing[values->depth - 1]--;
  values->missing[values->depth++] = count * each;
  return LP_OK;
}

lp_status lp_push_array(lp_values *values, size_t count) {
  return push_container(values, count, 1, "lp_push_array");
}

lp_status lp_push_map(lp_values *values, size_t count) {
  return push_container(values, count, 2, "lp_push_map");
}

/* ---- reading ---------------------------------------------------------------- */

lp_reader lp_values_read(const lp_values *values) {
  if (!values) return (lp_reader){0};
  return (lp_reader){.at = values->bytes.data,
                     .end = values->bytes.data + values->bytes.length,
                     .left = values->count};
}

/* The head of the next value; false: there is none, or the bytes are no MessagePack. */
static bool peek(const lp_reader *reader, token *out) {
  if (!reader || reader->left == 0) return false;
  size_t hand = (size_t)(reader->end - reader->at);
  return token_read(reader->at, hand, out) == TOKEN_READ && token_payload(out) <= hand - out->head;
}

static const char *const kind_names[] = {"no further value", "nil",      "boolean",  "integer",
                                         "number",           "string",   "an array", "a map",
                                         "a client",         "an object"};

lp_kind lp_read_kind(const lp_reader *reader) {
  token t = {0};
  if (!peek(reader, &t)) return LP_END;
  switch (t.kind) {
    case TOKEN_NIL: return LP_NIL;
    case TOKEN_FALSE:
    case TOKEN_TRUE: return LP_BOOLEAN;
    case TOKEN_UNSIGNED:
    case TOKEN_SIGNED: return LP_INTEGER;
    case TOKEN_FLOAT32:
    case TOKEN_FLOAT64: return LP_NUMBER;
    case TOKEN_STRING:
    case TOKEN_BINARY: return LP_STRING;
    case TOKEN_ARRAY: return LP_ARRAY;
    case TOKEN_MAP: return LP_MAP;
    case TOKEN_EXT: return t.ext_type == CODEC_EXT_CLIENT ? LP_CLIENT : LP_OTHER;
    default: return LP_OTHER;
  }
}

size_t lp_read_left(const lp_reader *reader) {
  return reader ? reader->left : 0;
}

static lp_status refuse(const lp_reader *reader, const char *what, const char *expected) {
  if (!reader) return embed_fail(LP_INVALID_ARGUMENT, "%s: reader is NULL", what);
  return embed_fail(LP_INVALID_ARGUMENT, "%s: value %zu: expected %s, got %s", what,
                    reader->index + 1, expected, kind_names[lp_read_kind(reader)]);
}

/* Passes the head and payload of the next value, which was looked at. */
static void pass(lp_reader *reader, const token *t) {
  reader->at += t->head + token_payload(t);
  reader->left--;
  reader->index++;
}

lp_status lp_read_nil(lp_reader *reader) {
  token t;
  if (!peek(reader, &t) || t.kind != TOKEN_NIL) return refuse(reader, "lp_read_nil", "nil");
  pass(reader, &t);
  return LP_OK;
}

lp_status lp_read_boolean(lp_reader *reader, bool *out) {
  token t;
  if (!out || !peek(reader, &t) || (t.kind != TOKEN_FALSE && t.kind != TOKEN_TRUE))
    return refuse(reader, "lp_read_boolean", out ? "a boolean" : "a place for it, not NULL");
  *out = t.kind == TOKEN_TRUE;
  pass(reader, &t);
  return LP_OK;
}

static bool is_integer(const token *t) {
  return t->kind == TOKEN_SIGNED || (t->kind == TOKEN_UNSIGNED && t->value <= INT64_MAX);
}

static double float_of(const token *t) {
  if (t->kind == TOKEN_FLOAT64) {
    double value;
    memcpy(&value, &t->value, sizeof value);
    return value;
  }
  uint32_t bits = (uint32_t)t->value;
  float value;
  memcpy(&value, &bits, sizeof value);
  return (double)value;
}

static bool is_float(const token *t) {
  return t->kind == TOKEN_FLOAT32 || t->kind == TOKEN_FLOAT64;
}

/* A float that is a whole number an int64_t can hold. */
static bool is_whole(const token *t, int64_t *out) {
  double value = float_of(t);
  if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0)) return false;
  *out = (int64_t)value;
  return (double)*out == value;
}

lp_status lp_read_integer(lp_reader *reader, int64_t *out) {
  token t;
  bool found = out && peek(reader, &t);
  if (found && is_integer(&t)) {
    *out = (int64_t)t.value;
  } else if (!found || !is_float(&t) || !is_whole(&t, out)) {
    return refuse(reader, "lp_read_integer", out ? "an integer" : "a place for it, not NULL");
  }
  pass(reader, &t);
  return LP_OK;
}

lp_status lp_read_number(lp_reader *reader, double *out) {
  token t;
  bool found = out && peek(reader, &t);
  if (found && is_integer(&t)) {
    *out = (double)(int64_t)t.value;
  } else if (found && is_float(&t)) {
    *out = float_of(&t);
  } else {
    return refuse(reader, "lp_read_number", out ? "a number" : "a place for it, not NULL");
  }
  pass(reader, &t);
  return LP_OK;
}

lp_status lp_read_bytes(lp_reader *reader, const char **out, size_t *length) {
  token t;
  if (!out || !length) return refuse(reader, "lp_read_bytes", "places for it, not NULL");
  if (!peek(reader, &t) || (t.kind != TOKEN_STRING && t.kind != TOKEN_BINARY))
    return refuse(reader, "lp_read_bytes", "a string");
  *out = (const char *)reader->at + t.head;
  *length = (size_t)t.value;
  pass(reader, &t);
  return LP_OK;
}

lp_status lp_read_string(lp_reader *reader, char *out, size_t size) {
  token t;
  if (!out || size == 0) return refuse(reader, "lp_read_string", "a place for it, not NULL");
  if (!peek(reader, &t) || (t.kind != TOKEN_STRING && t.kind != TOKEN_BINARY))
    return refuse(reader, "lp_read_string", "a string");
  const char *text = (const char *)reader->at + t.head;
  if (t.value >= size || memchr(text, 0, (size_t)t.value))
    return embed_fail(LP_OUT_OF_RANGE,
                      "lp_read_string: value %zu: a string of %zu bytes does not fit into %zu, or "
                      "has a byte 0",
                      reader->index + 1, (size_t)t.value, size);
  memcpy(out, text, (size_t)t.value);
  out[t.value] = 0;
  pass(reader, &t);
  return LP_OK;
}

lp_status lp_read_skip(lp_reader *reader) {
  token t;
  if (!peek(reader, &t)) return refuse(reader, "lp_read_skip", "a value");
  lp_reader all = *reader;
  for (uint64_t open = 1; open > 0; open--) {
    all.left = 1;
    if (!peek(&all, &t) || token_children(&t) > (uint64_t)(all.end - all.at))
      return embed_fail(LP_DATA_LOSS, "lp_read_skip: value %zu is damaged", reader->index + 1);
    open += token_children(&t);
    pass(&all, &t);
  }
  reader->at = all.at;
  reader->left--;
  reader->index++;
  return LP_OK;
}

static lp_status read_container(lp_reader *reader, lp_reader *elements, token_kind kind,
                                const char *what, const char *expected) {
  token t;
  if (!elements || !peek(reader, &t) || t.kind != kind)
    return refuse(reader, what, elements ? expected : "a reader for it, not NULL");
  lp_reader inner = {.at = reader->at + t.head, .left = (size_t)token_children(&t)};
  lp_status status = lp_read_skip(reader);
  if (status != LP_OK) return status;
  inner.end = reader->at;
  *elements = inner;
  return LP_OK;
}

lp_status lp_read_array(lp_reader *reader, lp_reader *elements) {
  return read_container(reader, elements, TOKEN_ARRAY, "lp_read_array", "an array");
}

lp_status lp_read_map(lp_reader *reader, lp_reader *elements) {
  return read_container(reader, elements, TOKEN_MAP, "lp_read_map", "a map");
}

lp_status lp_push_next(lp_values *values, lp_reader *reader) {
  lp_reader behind = reader ? *reader : (lp_reader){0};
  lp_status status = lp_read_skip(&behind);
  if (status != LP_OK) return status;
  size_t length = (size_t)(behind.at - reader->at);
  uint8_t *at = begin(values, length, "lp_push_next");
  if (!at) return unmade(values);
  memcpy(at, reader->at, length);
  *reader = behind;
  return finish(values, at + length);
}

/* ---- for the other files ---------------------------------------------------- */

lp_reader reader_of_array(const uint8_t *data, size_t length) {
  lp_reader whole = {.at = data, .end = data + length, .left = 1}, elements = {0};
  token t;
  if (!peek(&whole, &t) || t.kind != TOKEN_ARRAY) return elements;
  return (lp_reader){.at = data + t.head, .end = data + length, .left = (size_t)t.value};
}

lp_reader reader_field(lp_reader map, const char *key) {
  const char *name;
  size_t length, wanted = strlen(key);
  while (map.left >= 2) {
    bool named = lp_read_kind(&map) == LP_STRING && lp_read_bytes(&map, &name, &length) == LP_OK;
    if (named && length == wanted && memcmp(name, key, wanted) == 0) {
      map.left = 1;
      return map;
    }
    if (!named && lp_read_skip(&map) != LP_OK) break;
    if (lp_read_skip(&map) != LP_OK) break;
  }
  return (lp_reader){0};
}

char *reader_copy_string(lp_reader *reader) {
  const char *text;
  size_t length;
  if (lp_read_kind(reader) != LP_STRING || lp_read_bytes(reader, &text, &length) != LP_OK)
    return NULL;
  char *copy = mem_alloc(length + 1);
  if (!copy) return NULL;
  memcpy(copy, text, length);
  copy[length] = 0;
  return copy;
}
