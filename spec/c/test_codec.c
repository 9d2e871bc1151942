/* The codec: bytes of every format, exact values, refusals with their words, and
 * bytes from peers that do not play by the rules. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <math.h>
#include <mpack.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "test.h"
#include "wire/codec.h"
#include "wire/text.h"

static lua_State *L;
static codec rules;
static fault why;

/* ---- helpers ------------------------------------------------------------------ */

/* Requests that states may still make before every further one fails. */
static long requests_left = -1;

static void *allocate(void *unused, void *block, size_t old, size_t bytes) {
  (void)unused, (void)old;
  if (bytes && requests_left >= 0 && requests_left-- == 0) {
    requests_left = 0;
    return NULL;
  }
  if (bytes) return mem_realloc(block, bytes);
  mem_free(block);
  return NULL;
}

static void open_state(void) {
  L = lua_newstate(allocate, NULL);
  luaL_openlibs(L);
  codec_open(L);
  lua_setglobal(L, "lp");
  rules = (codec){.limits = codec_default_limits};
}

static void close_state(void) {
  lua_close(L);
}

/* Pushes the results of a chunk on an empty stack; their number. */
static int run(const char *code) {
  lua_settop(L, 0);
  if (luaL_dostring(L, code) != LUA_OK) {
    fprintf(stderr, "in the chunk %s: %s\n", code, lua_tostring(L, -1));
    exit(1);
  }
  return lua_gettop(L);
}

static lp_status encode(const char *code, buffer *out) {
  int count = run(code);
  why.text[0] = 0;
  lp_status status = codec_write(L, 1, count, "argument", &rules, out, &why);
  if (lua_gettop(L) != count) fprintf(stderr, "the stack has changed: %s\n", code);
  return status;
}

static size_t from_hex(const char *hex, uint8_t *bytes) {
  size_t length = 0;
  for (unsigned value; *hex; hex += 2) {
    while (*hex == ' ') hex++;
    if (sscanf(hex, "%2x", &value) != 1) break;
    bytes[length++] = (uint8_t)value;
  }
  return length;
}

static bool same_bytes(const buffer *out, const char *hex) {
  uint8_t expected[512];
  size_t length = from_hex(hex, expected);
  bool same = out->length == length && !memcmp(out->data, expected, length);
  for (size_t i = 0; !same && i < out->length; i++) fprintf(stderr, "%02x ", out->data[i]);
  return same;
}

/* The chunk's values have these bytes (without the array header of the message), and
 * the bytes give the values back. */
static bool is_written(const char *code, const char *hex) {
  buffer out = {0};
  char whole[1100];
  bool well = encode(code, &out) == LP_OK;
  snprintf(whole, sizeof whole, "%02x %s", 0x90 | (unsigned)lua_gettop(L), hex);
  well = well && same_bytes(&out, whole);
  if (!well) fprintf(stderr, "%s: %s\n", code, why.text);
  buffer_fini(&out);
  return well;
}

/* The chunk's values are refused with exactly these words. */
static bool is_refused(const char *code, const char *text) {
  buffer out = {0};
  buffer_append(&out, "before", 6);
  bool well = encode(code, &out) != LP_OK && !strcmp(why.text, text);
  well = well && out.length == 6 && !memcmp(out.data, "before", 6);
  if (!well) fprintf(stderr, "%s: got \"%s\"\n", code, why.text);
  buffer_fini(&out);
  return well;
}

static lp_status decode(const uint8_t *bytes, size_t length, int *count) {
  /* A copy of the exact size, so that the sanitizer sees a read beyond it. */
  uint8_t *copy = malloc(length ? length : 1);
  memcpy(copy, bytes, length);
  lua_settop(L, 0);
  why = (fault){0};
  lp_status status = codec_read(L, copy, length, &rules, count, &why);
  free(copy);
  return status;
}

/* The bytes (a whole message) are read as values for which `check`, a Lua function's
 * body with them in `...`, returns true. */
static bool is_read(const char *hex, const char *check) {
  uint8_t bytes[512];
  int count;
  size_t length = from_hex(hex, bytes);
  if (decode(bytes, length, &count) != LP_OK) {
    fprintf(stderr, "%s: %s\n", hex, why.text);
    return false;
  }
  if (luaL_loadstring(L, check) != LUA_OK) exit(1);
  lua_insert(L, 1);
  if (lua_pcall(L, count, 1, 0) != LUA_OK) fprintf(stderr, "%s\n", lua_tostring(L, -1));
  return lua_isboolean(L, -1) && lua_toboolean(L, -1);
}

static bool is_bad(const char *hex, const char *text) {
  uint8_t bytes[512];
  int count;
  size_t length = from_hex(hex, bytes);
  bool well = decode(bytes, length, &count) != LP_OK && !strcmp(why.text, text);
  if (!well) fprintf(stderr, "%s: got \"%s\"\n", hex, why.text);
  return well && lua_gettop(L) == 0 && count == 0;
}

/* ---- scalars ------------------------------------------------------------------ */

static void test_integers_take_the_shortest_form(void) {
  CHECK(is_written("return 0, 1, 127, 128", "00 01 7f cc80"));
  CHECK(is_written("return 255, 256, 65535, 65536", "ccff cd0100 cdffff ce00010000"));
  CHECK(is_written("return 1<<31, (1<<32)-1, 1<<32", "ce80000000 ceffffffff cf0000000100000000"));
  CHECK(is_written("return math.maxinteger", "cf7fffffffffffffff"));
  CHECK(is_written("return -1, -32, -33, -128, -129", "ff e0 d0df d080 d1ff7f"));
  CHECK(is_written("return -32768, -32769", "d18000 d2ffff7fff"));
  CHECK(is_written("return -(1<<31), -(1<<31)-1", "d280000000 d3ffffffff7fffffff"));
  CHECK(is_written("return math.mininteger", "d38000000000000000"));
}

static void test_every_integer_form_is_read(void) {
  CHECK(
      is_read("9a 05 cc05 cd0005 ce00000005 cf0000000000000005 d005 d10005 d200000005"
              "d30000000000000005 cf7fffffffffffffff",
              "local t = {...} for i = 1, 9 do assert(t[i] == 5 and math.type(t[i]) == 'integer')"
              " end return t[10] == math.maxinteger"));
  CHECK(is_read("95 ff d0ff d1ffff d2ffffffff d3ffffffffffffffff",
                "local t = {...} for i = 1, 5 do assert(t[i] == -1) end return true"));
  CHECK(is_read("91 d38000000000000000", "return ... == math.mininteger"));
}

static void test_floats_stay_floats_to_the_bit(void) {
  CHECK(is_written("return 1.0, 2.0^53, 3//1.0",
                   "cb3ff0000000000000 cb4340000000000000"
                   "cb4008000000000000"));
  CHECK(is_written("return -0.0, 1/0, -1/0",
                   "cb8000000000000000 cb7ff0000000000000"
                   "cbfff0000000000000"));
  CHECK(is_read("94 cb8000000000000000 cb3ff0000000000000 cb7ff8000000000000 cbfff0000000000000",
                "local zero, one, nan, inf = ... return 1/zero == -1/0 and one == 1 and"
                " math.type(one) == 'float' and nan ~= nan and inf == -1/0"));
  CHECK(is_read("93 ca3fc00000 ca7f800000 ca80000000",
                "local a, inf, zero = ... return a == 1.5 and inf == 1/0 and 1/zero == -1/0"));
}

static void test_nil_and_booleans(void) {
  CHECK(is_written("return nil, true, false, nil", "c0 c3 c2 c0"));
  CHECK(is_read("94 c0 c3 c2 c0",
                "local a, b, c, d = ... return select('#', ...) == 4 and a == nil"
                " and b == true and c == false and d == nil"));
  CHECK(is_written("return", ""));
  CHECK(is_read("90", "return select('#', ...) == 0"));
}

/* Head bytes of a string of `length` times `byte`. */
static bool string_begins(size_t length, const char *byte, const char *hex) {
  char code[80];
  uint8_t head[8];
  int count;
  buffer out = {0};
  snprintf(code, sizeof code, "return ('%s'):rep(%zu)", byte, length);
  size_t head_length = from_hex(hex, head);
  bool well = encode(code, &out) == LP_OK && out.length == 1 + head_length + length &&
              !memcmp(out.data + 1, head, head_length);
  well = well && decode(out.data, out.length, &count) == LP_OK && lua_rawlen(L, 1) == length;
  buffer_fini(&out);
  return well;
}

static void test_strings_are_text_or_bytes(void) {
  CHECK(string_begins(0, "x", "a0") && string_begins(31, "x", "bf"));
  CHECK(string_begins(32, "x", "d920") && string_begins(255, "x", "d9ff"));
  CHECK(string_begins(256, "x", "da0100") && string_begins(65535, "x", "daffff"));
  CHECK(string_begins(65536, "x", "db00010000"));
  CHECK(string_begins(1, "\\xff", "c401") && string_begins(255, "\\xff", "c4ff"));
  CHECK(string_begins(256, "\\xff", "c50100") && string_begins(65536, "\\xff", "c600010000"));
  CHECK(is_written("return '\\xff\\0', 'h\\xc3\\xa9', 'a\\0b'", "c402ff00 a368c3a9 a3610062"));
  CHECK(is_read("96 a161 d90161 da000161 db0000000161 c40161 c6 00000001 61",
                "for _, s in ipairs{...} do assert(s == 'a') end return select('#', ...) == 6"));
}

static void test_long_strings_are_checked_as_they_are_copied(void) {
  static char from[70000], to[sizeof from];
  static const size_t places[] = {0, 8190, 8191, 8192, 65534, sizeof from - 3};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    memset(from, 'a', sizeof from);
    CHECK(text_copy(to, from, sizeof from));
    memcpy(from + places[i], "\xe2\x82\xac", 3);
    CHECK(text_copy(to, from, sizeof from) && !memcmp(from, to, sizeof from));
    from[places[i] + 2] = 'a';
    CHECK(!text_copy(to, from, sizeof from) && !memcmp(from, to, sizeof from));
  }
}

static void test_utf8_is_told_from_bytes(void) {
  static const char *const good[] = {"",
                                     "a",
                                     "\x7f",
                                     "\xc2\x80",
                                     "\xdf\xbf",
                                     "\xe0\xa0\x80",
                                     "\xed\x9f\xbf",
                                     "\xee\x80\x80",
                                     "\xf0\x90\x80\x80",
                                     "\xf4\x8f\xbf\xbf"};
  static const char *const bad[] = {"\x80",
                                    "\xc0\x80",
                                    "\xc1\xbf",
                                    "\xc2",
                                    "\xe0\x9f\xbf",
                                    "\xed\xa0\x80",
                                    "\xe2\x82",
                                    "\xf0\x8f\xbf\xbf",
                                    "\xf4\x90\x80\x80",
                                    "\xf5\x80\x80\x80",
                                    "\xff",
                                    "\xc2\xc2"};
  char long_text[100];
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    for (int before = 0; before < 70; before++) {
      int length = snprintf(
          long_text, sizeof long_text, "%.*s%s", before,
          "0123456789012345678901234567890123456789012345678901234567890123456789", good[i]);
      CHECK(text_is_utf8(long_text, (size_t)length));
    }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    for (int before = 0; before < 70; before++) {
      int length = snprintf(
          long_text, sizeof long_text, "%.*s%s", before,
          "0123456789012345678901234567890123456789012345678901234567890123456789", bad[i]);
      CHECK(!text_is_utf8(long_text, (size_t)length));
    }
}

/* ---- tables ------------------------------------------------------------------- */

static void test_keys_one_to_n_make_an_array(void) {
  CHECK(is_written("return {}, {1, 2, 3}, {{}, 'a'}", "90 93010203 9290a161"));
  CHECK(is_written("local t = {} for i = 3, 1, -1 do t[i] = i end return t", "93010203"));
  CHECK(is_written("return {[1] = 1, [2] = {2}, [3] = 3}", "930191 0203"));
  CHECK(is_written("local t = {1, 2, 3, x = 1} t.x = nil return t", "93010203"));
}

static void test_other_keys_make_a_map(void) {
  CHECK(is_written("return {['1'] = 1}", "81a13101"));
  CHECK(is_written("return {[0] = 1}, {[2] = 1}, {[1.5] = 1}, {[true] = 1}",
                   "810001 810201 81cb3ff800000000000001 81c301"));
  CHECK(is_written("return {1, nil, 3}", "8201010303"));
  CHECK(is_written("return {{}, x = 1}", "820190a17801"));
  CHECK(is_written("return {1, ['2'] = 2}", "820101a13202"));
  CHECK(is_written("return {[1 << 40] = 1, [1] = 2}", "82cf000001000000000001 0102") ||
        is_written("return {[1 << 40] = 1, [1] = 2}", "820102cf000001000000000001"));
}

/* A border far beyond the entries (all powers of two, in the hash part) must not be taken
 * for an array's length. */
static void test_sparse_tables_are_maps(void) {
  buffer out = {0};
  rules.limits.message_bytes = 1000;
  CHECK(encode("local text = 'return {'"
               " for i = 0, 40 do text = text .. '[' .. (1 << i) .. '] = true,' end"
               " local t = load(text .. '}')() assert(#t == 1 << 40) return t",
               &out) == LP_OK);
  CHECK(out.data[1] == 0xde && out.data[3] == 41);
  buffer_fini(&out);
}

static bool table_begins(const char *code, const char *hex) {
  buffer out = {0};
  uint8_t head[8];
  size_t length = from_hex(hex, head);
  int count;
  bool well = encode(code, &out) == LP_OK && !memcmp(out.data + 1, head, length);
  well = well && decode(out.data, out.length, &count) == LP_OK;
  buffer_fini(&out);
  return well;
}

static void test_containers_take_the_shortest_header(void) {
  char code[200];
  static const struct {
    int count;
    const char *array, *map;
  } heads[] = {{15, "9f", "8f"},
               {16, "dc0010", "de0010"},
               {65535, "dcffff", "deffff"},
               {65536, "dd00010000", "df00010000"}};
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
    snprintf(code, sizeof code, "local t = {} for i = 1, %d do t[i] = i end return t",
             heads[i].count);
    CHECK(table_begins(code, heads[i].array));
    snprintf(code, sizeof code, "local t = {} for i = 1, %d do t['k' .. i] = {} end return t",
             heads[i].count);
    CHECK(table_begins(code, heads[i].map));
  }
}

static void test_every_container_form_is_read(void) {
  CHECK(is_read("dc0002 dd00000001 07 de0001 a161 08",
                "local a, b = ... return a[1] == 7 and b.a == 8"));
  CHECK(is_read("dd00000001 df00000001 a161 91c0",
                "local t = ... return #t.a == 0 and next(t) == 'a'"));
  CHECK(is_read("91 8201c0 02c3", "local t = ... return t[1] == nil and t[2] == true"));
  CHECK(is_read("91 93c0c003", "local t = ... return t[1] == nil and t[3] == 3"));
  CHECK(is_read("91 8190 01", "local k, v = next(...) return type(k) == 'table' and v == 1"));
}

static void test_empty_maps_keep_their_mark(void) {
  CHECK(is_written("return lp.map{}, lp.array{}, {}, lp.map()", "80 90 90 80"));
  CHECK(is_written("return lp.map{1, 2}, lp.array{1, nil, 3}", "8201010202 9301c003"));
  CHECK(is_written("return lp.unpack('\\x91\\x80')", "80"));
  CHECK(is_written("local t = lp.unpack('\\x91\\x80') t.a = 1 return t", "81a16101"));
  CHECK(is_written("local t = lp.unpack('\\x91\\x80') t[1] = 1 return t", "810101"));
  CHECK(is_written("local t = lp.unpack('\\x91\\x90') t.a = 1 return t", "81a16101"));
  CHECK(is_written("return lp.array(lp.map{})", "90"));
  CHECK(is_refused("return lp.array{1, x = 2}",
                   "argument 1: .x: a table marked lp.array has a key that is no index"));
  CHECK(is_refused("return lp.array{[1 << 60] = 1}",
                   "message too large: 1152921504606846977 bytes > limit 67108864"));
}

static void test_tables_are_read_raw(void) {
  CHECK(
      is_written("return setmetatable({1}, {__index = {2, 3}, __len = function() return 9 end,"
                 " __pairs = error, __name = 'Odd'})",
                 "9101"));
  CHECK(is_written("return setmetatable({}, {__index = function() error 'no' end})", "90"));
}

static void test_a_shared_subtable_is_sent_twice(void) {
  CHECK(is_written("local s = {1} return {s, s}, s", "9291019101 9101"));
}

/* ---- refusals when writing ---------------------------------------------------- */

static void test_refused_values_are_named_with_their_path(void) {
  CHECK(is_refused("return print", "argument 1: cannot send a function"));
  CHECK(is_refused("return 1, {env = {socket = io.stdout}}",
                   "argument 2: .env.socket: cannot send a userdata (FILE*)"));
  CHECK(is_refused("return {1, 2, {coroutine.create(print)}}",
                   "argument 1: [3][1]: cannot send a coroutine"));
  CHECK(is_refused("return {['odd \"key\\n'] = print}",
                   "argument 1: [\"odd \\\"key\\x0a\"]: cannot send a function"));
  CHECK(is_refused("return {[1.5] = {[true] = print}}",
                   "argument 1: [1.5][true]: cannot send a function"));
  CHECK(is_refused("return {a = {[print] = 1}}", "argument 1: .a[key]: cannot send a function"));
  CHECK(is_refused("return {[('k'):rep(100)] = print}",
                   "argument 1: [\"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk…\"]: "
                   "cannot send a function"));
  lua_settop(L, 0);
  lua_pushlightuserdata(L, &why);
  buffer out = {0};
  CHECK(codec_write(L, 1, 1, "result", &rules, &out, &why) == LP_INVALID_ARGUMENT);
  CHECK(!strcmp(why.text, "result 1: cannot send a light userdata"));
  buffer_fini(&out);
}

static void test_cycles_are_refused(void) {
  CHECK(is_refused("local t = {} t.t = t return t", "argument 1: .t: cannot send a cyclic table"));
  CHECK(is_refused("local a, b = {}, {} a.b = b b[1] = a return 1, a",
                   "argument 2: .b[1]: cannot send a cyclic table"));
  CHECK(is_refused("local t = {} t[t] = 1 return t",
                   "argument 1: [key]: cannot send a cyclic table"));
}

static const char nest[] = "local t = {} for i = 2, %d do t = {%st} end return t";

static lp_status encode_nested(int depth, const char *key, buffer *out) {
  char code[100];
  snprintf(code, sizeof code, nest, depth, key);
  return encode(code, out);
}

static void test_nesting_is_bounded(void) {
  buffer out = {0};
  int count;
  CHECK(encode_nested(200, "", &out) == LP_OK);
  CHECK(decode(out.data, out.length, &count) == LP_OK);
  out.length = 0;
  CHECK(encode_nested(200, "x=", &out) == LP_OK);
  CHECK(decode(out.data, out.length, &count) == LP_OK);
  out.length = 0;
  CHECK(encode_nested(201, "", &out) == LP_RESOURCE_EXHAUSTED && out.length == 0);
  CHECK(strstr(why.text, "argument 1: …[1][1]") && strstr(why.text, ": nested deeper than 200"));
  CHECK(encode_nested(100000, "x=", &out) == LP_RESOURCE_EXHAUSTED);
  uint8_t deep[600];
  memset(deep, 0x91, sizeof deep);
  CHECK(decode(deep, sizeof deep, &count) == LP_RESOURCE_EXHAUSTED);
  CHECK(!strcmp(why.text, "nested deeper than 200 at offset 202"));
  memset(deep, 0x81, sizeof deep);
  deep[0] = 0x91;
  CHECK(decode(deep, sizeof deep, &count) == LP_RESOURCE_EXHAUSTED);
  buffer_fini(&out);
}

/* A second attempt at a table must not be made at every level. */
static void test_deep_mixed_tables_take_one_attempt(void) {
  buffer out = {0};
  int count;
  CHECK(encode("local t = {1} for i = 1, 150 do t = {t, x = i} end return t", &out) == LP_OK);
  out.length = 0;
  CHECK(encode("local t = {1} for i = 1, 150 do t = {t, nil, t and i} end return t", &out) ==
        LP_OK);
  CHECK(decode(out.data, out.length, &count) == LP_OK);
  buffer_fini(&out);
}

static void test_a_message_of_exactly_the_limit_passes(void) {
  buffer out = {0};
  int count;
  rules.limits.message_bytes = 1000;
  /* array header 1, string header 3 */
  CHECK(encode("return ('x'):rep(996)", &out) == LP_OK && out.length == 1000);
  CHECK(decode(out.data, out.length, &count) == LP_OK);
  out.length = 0;
  CHECK(encode("return ('x'):rep(993), 1, 2, 3", &out) == LP_OK && out.length == 1000);
  CHECK(is_refused("return ('x'):rep(997)", "message too large: 1001 bytes > limit 1000"));
  CHECK(is_refused("return ('x'):rep(993), 1, 2, 3, 4",
                   "message too large: 1001 bytes > limit 1000"));
  CHECK(is_refused("return {('x'):rep(2000)}", "message too large: 2002 bytes > limit 1000"));
  CHECK(is_refused("local t = {} for i = 1, 1000 do t[i] = 1 end return t",
                   "message too large: 1004 bytes > limit 1000"));
  out.length = 0;
  CHECK(encode("local t = {} for i = 1, 10000 do t['k' .. i] = 1 end return t", &out) ==
        LP_RESOURCE_EXHAUSTED);
  CHECK(out.capacity < 4096);
  buffer_fini(&out);
  rules.limits.message_bytes = 0;
  CHECK(is_refused("return", "message too large: 1 bytes > limit 0"));
}

static void test_the_default_limit_is_64_mib(void) {
  CHECK(is_refused("return ('x'):rep(70000000)",
                   "message too large: 70000001 bytes > limit 67108864"));
}

static void test_the_number_of_values_is_bounded(void) {
  rules.limits.values = 3;
  CHECK(is_written("return 1, 2, 3", "010203"));
  CHECK(is_refused("return 1, 2, 3, 4", "too many values: 4 arguments > limit 3"));
  CHECK(is_bad("9401020304", "values > limit 3 at offset 0"));
  rules.limits.values = 10000;
  uint8_t many[10003] = {0xdc, 0x27, 0x10};
  int count;
  CHECK(decode(many, sizeof many, &count) == LP_OK && count == 10000 && lua_gettop(L) == 10000);
}

/* ---- bytes from peers --------------------------------------------------------- */

static void test_three_kinds_of_broken_bytes_have_three_errors(void) {
  CHECK(is_bad("92 01", "truncated at offset 1: at least 2 bytes are needed there, 1 are at hand"));
  CHECK(is_bad("91", "truncated at offset 1: at least 1 bytes are needed there, 0 are at hand"));
  CHECK(is_bad("", "truncated at offset 0: at least 1 bytes are needed there, 0 are at hand"));
  CHECK(
      is_bad("91 cd01", "truncated at offset 1: at least 3 bytes are needed there, 2 are at hand"));
  CHECK(is_bad("91 a56162",
               "truncated at offset 2: at least 5 bytes are needed there, 2 are at hand"));
  CHECK(is_bad("91 01 02 03", "trailing bytes: 2 after the end at offset 2"));
  CHECK(is_bad("92 01 c1", "invalid byte c1 at offset 2"));
  CHECK(is_bad("81 0102", "expected an array at offset 0, found byte 81"));
}

static void test_lengths_near_the_end_of_their_type_are_harmless(void) {
  CHECK(is_bad("ddffffffff", "values > limit 10000 at offset 0"));
  CHECK(is_bad("91 ddffffffff 00",
               "truncated at offset 6: at least 4294967295 bytes are needed there, 1 are at hand"));
  CHECK(is_bad("91 df80000000 00",
               "truncated at offset 6: at least 4294967296 bytes are needed there, 1 are at hand"));
  CHECK(is_bad("91 dbffffffff 00",
               "truncated at offset 6: at least 4294967295 bytes are needed there, 1 are at hand"));
  CHECK(is_bad("91 c67fffffff 00",
               "truncated at offset 6: at least 2147483647 bytes are needed there, 1 are at hand"));
  CHECK(is_bad("91 c9ffffffff0200",
               "truncated at offset 7: at least 4294967295 bytes are needed there, 1 are at hand"));
}

static void test_what_lua_cannot_hold_is_refused(void) {
  CHECK(is_bad("91 cf8000000000000000", "integer 9223372036854775808 at offset 1 is beyond int64"));
  CHECK(is_bad("92 00 cfffffffffffffffff",
               "integer 18446744073709551615 at offset 2 is beyond int64"));
  CHECK(is_bad("91 81 c0 01", "a map with the key nil at offset 2"));
  CHECK(is_bad("91 81 cb7ff8000000000000 01", "a map with the key NaN at offset 2"));
  CHECK(is_bad("91 81 ca7fc00000 01", "a map with the key NaN at offset 2"));
  CHECK(is_bad("91 d40500", "unknown extension type 5 at offset 1"));
  CHECK(is_bad("91 d6ff00000000", "unknown extension type -1 at offset 1"));
  CHECK(is_bad("91 c70020", "unknown extension type 32 at offset 1"));
}

static void test_decoded_memory_is_bounded(void) {
  rules.limits.decoded_bytes = 10000;
  uint8_t empties[1000];
  int count;
  memset(empties, 0x90, sizeof empties);
  memcpy(empties, "\x91\xdc\x03\xe4", 4);
  CHECK(decode(empties, sizeof empties, &count) == LP_RESOURCE_EXHAUSTED);
  CHECK(strstr(why.text, "decoded message too large"));
  rules.limits.decoded_bytes = 100000;
  CHECK(decode(empties, sizeof empties, &count) == LP_OK);
}

/* Every level promises as many values as there are bytes left: the sum does not fit. */
static void test_nested_promises_share_the_bytes(void) {
  static uint8_t bytes[100000];
  size_t length = 0;
  int count;
  bytes[length++] = 0x91;
  for (int i = 0; i < 150; i++) {
    memcpy(bytes + length, "\xdd\x00\x01\x00\x00", 5);
    length += 5;
  }
  CHECK(decode(bytes, sizeof bytes, &count) == LP_INVALID_ARGUMENT);
  CHECK(strstr(why.text, "truncated at offset 11"));
}

static void test_odd_keys_can_be_bounded(void) {
  rules.limits.other_keys = 2;
  CHECK(is_read("91 83 0101 0201 a16101", "return true"));
  CHECK(is_bad("91 83 0101 0201 0301", "keys that are no strings > limit 2 at offset 6"));
}

/* ---- classes ------------------------------------------------------------------ */

static const char point_class[] =
    "local Point = {} Point.__index = Point "
    "Point.__add = function(a, b) return setmetatable({x = a.x + b.x, y = a.y + b.y}, Point) end "
    "lp.register('Point', Point, {pack = function(p) return p.x, p.y end,"
    " unpack = function(x, y) return setmetatable({x = x, y = y}, Point) end}) ";

static void test_classes_travel(void) {
  char code[2000];
  snprintf(code, sizeof code, "%s return setmetatable({x = 1, y = 2}, Point)", point_class);
  CHECK(is_written(code, "c70902 a5506f696e74 920102"));
  CHECK(run("local Plain = {} Plain.__index = Plain function Plain:get() return self.v end"
            " lp.register('Plain', Plain)"
            " local a = lp.unpack(lp.pack({setmetatable({v = 7}, Plain)}))"
            " assert(a[1]:get() == 7 and getmetatable(a[1]) == Plain)"
            " local Methods = {get = function(self) return self.v end}"
            " lp.register('Methods', Methods)"
            " local b = lp.unpack(lp.pack(setmetatable({v = 8}, {__index = Methods})))"
            " assert(b:get() == 8) b = lp.unpack(lp.pack(b)) assert(b:get() == 8)"
            " return 1") == 1);
}

static void test_large_instances_get_longer_headers(void) {
  CHECK(run("local Box = {} Box.__index = Box lp.register('Box', Box)"
            " for _, n in ipairs{0, 200, 240, 256, 65500, 65535, 65536, 1 << 20} do"
            "   local box = lp.unpack(lp.pack(setmetatable({v = ('x'):rep(n)}, Box)))"
            "   assert(getmetatable(box) == Box and #box.v == n) end return 1") == 1);
}

static void test_instances_nest_as_deep_both_ways(void) {
  buffer out = {0};
  int count;
  CHECK(encode("local Node = {} Node.__index = Node lp.register('Node', Node)"
               " local n for i = 1, 100 do n = setmetatable({n = n}, Node) end return n",
               &out) == LP_OK);
  CHECK(decode(out.data, out.length, &count) == LP_OK);
  out.length = 0;
  CHECK(encode("local N = {} N.__index = N lp.register('N', N)"
               " local n for i = 1, 101 do n = setmetatable({n = n}, N) end return n",
               &out) == LP_RESOURCE_EXHAUSTED);
  buffer_fini(&out);
}

static void test_pack_functions_are_bounded(void) {
  CHECK(
      is_refused("local C = {__name = 'C'} lp.register('C', C, {pack = function(c) return c end,"
                 " unpack = print}) return {c = setmetatable({}, C)}",
                 "argument 1: .c[1]: cannot send a cyclic table"));
  buffer out = {0};
  CHECK(encode("local D = {} D.__index = D lp.register('D', D, {pack = function(c)"
               " return setmetatable({}, D) end, unpack = print}) return setmetatable({}, D)",
               &out) == LP_RESOURCE_EXHAUSTED);
  CHECK(strstr(why.text, "nested deeper than 200"));
  CHECK(encode("local E = {} E.__index = E lp.register('E', E, {pack = function(c)"
               " return table.unpack({}, 1, 10001) end, unpack = print})"
               " return setmetatable({}, E)",
               &out) == LP_RESOURCE_EXHAUSTED);
  CHECK(strstr(why.text, "returned too many values"));
  buffer_fini(&out);
}

static void test_classes_serve_userdata(void) {
  CHECK(
      run("local file = io.stdout lp.register('File', getmetatable(file),"
          " {pack = function(f) return 'stdout' end, unpack = function(name) return io[name] end})"
          " assert(lp.unpack(lp.pack({file}))[1] == file) return 1") == 1);
}

static bool raises(const char *code, const char *text) {
  char chunk[600];
  snprintf(chunk, sizeof chunk, "local ok, err = pcall(function() %s end) return err", code);
  run(chunk);
  bool found = lua_isstring(L, 1) && strstr(lua_tostring(L, 1), text);
  if (!found) fprintf(stderr, "%s: got %s\n", code, luaL_tolstring(L, 1, NULL));
  return found;
}

static void test_register_explains_mistakes(void) {
  run("A, B = {}, {}");
  CHECK(raises("lp.register(1, A)", "the name must be a string that is not empty (got number)"));
  CHECK(raises("lp.register('', A)", "the name must be a string that is not empty"));
  CHECK(raises("lp.register('A')", "the class must be a table (got no value)"));
  CHECK(raises("lp.register('A', A, 1)", "the options must be a table (got number)"));
  CHECK(raises("lp.register('A', A, {pakc = print})", "unknown option pakc"));
  CHECK(raises("lp.register('A', A, {pack = 1})", "pack must be a function, not a number"));
  CHECK(raises("lp.register('A', A, {pack = print})", "unpack is missing"));
  run("lp.register('A', A) lp.register('A', A)");
  CHECK(raises("lp.register('A', B)", "the name 'A' is taken by another class"));
  CHECK(raises("lp.register('B', A)", "the class is registered as 'A' already"));
  CHECK(raises("lp.map(setmetatable({}, {}))", "lp.map: the table has a metatable already"));
  CHECK(raises("lp.map(1)", "table expected, got number"));
}

static void test_errors_in_pack_and_unpack_pass(void) {
  run("C = {} C.__index = C lp.register('C', C, {pack = function(c) if c.bad then error('packed')"
      " end end, unpack = function() error('unpacked') end})");
  CHECK(raises("lp.pack(setmetatable({bad = true}, C))", "packed"));
  CHECK(raises("lp.unpack(lp.pack(setmetatable({}, C)))", "unpacked"));
  CHECK(raises("lp.unpack('\\x91\\xc7\\x03\\x02\\xa1X\\x90')",
               "the class \"X\" at offset 4 was not given to lp.register here"));
  CHECK(raises("lp.unpack('\\x91\\xc7\\x04\\x02\\xa1C\\x90\\x00')", "trailing bytes"));
  CHECK(raises("lp.unpack('\\x91\\xc7\\x02\\x02\\xa1C')", "truncated"));
  CHECK(raises("lp.unpack('\\x91\\xc7\\x02\\x02\\x90\\x90')", "expected a class name"));
}

/* ---- the engine's hooks ------------------------------------------------------- */

static bool write_client(lua_State *state, int index, buffer *out) {
  return lua_touserdata(state, index) && buffer_append(out, "\xd4\x01\x2a", 3);
}

static bool refuse_client(lua_State *state, int index, buffer *out) {
  (void)state, (void)index;
  buffer_append(out, "half", 4);
  return false;
}

static bool read_client(lua_State *state, int type, const uint8_t *data, size_t length) {
  if (type != CODEC_EXT_CLIENT || length != 1) return false;
  lua_pushfstring(state, "client %d", data[0]);
  return true;
}

static void test_hooks_serve_the_engine(void) {
  rules.hooks = (codec_hooks){.write_userdata = write_client, .read_ext = read_client};
  CHECK(is_written("return {io.stdout, 1}", "92d4012a01"));
  CHECK(is_read("91 d4012a", "return ... == 'client 42'"));
  CHECK(is_bad("91 d4022a", "expected a class name at offset 3, found byte 2a"));
  CHECK(is_bad("91 d4032a", "unknown extension type 3 at offset 1"));
  rules.hooks.write_userdata = refuse_client;
  CHECK(is_refused("return {io.stdout}", "argument 1: [1]: cannot send a userdata (FILE*)"));
}

static void test_plain_peers_see_no_extensions(void) {
  rules.plain = true;
  rules.hooks = (codec_hooks){.write_userdata = write_client, .read_ext = read_client};
  char code[2000];
  snprintf(code, sizeof code, "%s return setmetatable({x = 1}, Point)", point_class);
  CHECK(is_written(code, "81a17801"));
  CHECK(is_refused("return io.stdout", "argument 1: cannot send a userdata (FILE*)"));
  CHECK(is_bad("91 d4012a", "unknown extension type 1 at offset 1"));
  CHECK(is_bad("91 c70302a14190", "unknown extension type 2 at offset 1"));
}

static buffer *shared_out;
static int send_something(lua_State *state) {
  (void)state;
  buffer_append(shared_out, "a frame of its own", 18);
  return 0;
}

static void test_pack_that_sends_is_refused(void) {
  buffer out = {0};
  shared_out = &out;
  lua_pushcfunction(L, send_something);
  lua_setglobal(L, "send");
  CHECK(encode("local C = {} C.__index = C lp.register('C', C, {pack = send, unpack = print})"
               " return setmetatable({}, C)",
               &out) == LP_FAILED_PRECONDITION);
  CHECK(out.length == 0);
  buffer_fini(&out);
}

static void test_one_value_is_written_alone(void) {
  buffer out = {0};
  run("return {1}, {data = print}");
  CHECK(codec_write_value(L, -2, "error", &rules, &out, &why) == LP_OK);
  CHECK(same_bytes(&out, "9101"));
  CHECK(codec_write_value(L, 2, "error", &rules, &out, &why) == LP_INVALID_ARGUMENT);
  CHECK(!strcmp(why.text, "error: .data: cannot send a function") && out.length == 2);
  buffer_fini(&out);
}

static void test_one_value_is_read_alone(void) {
  lua_settop(L, 0);
  CHECK(codec_read_value(L, (const uint8_t *)"\xa2hi", 3, &rules, &why) == LP_OK);
  CHECK(!strcmp(lua_tostring(L, 1), "hi"));
  CHECK(codec_read_value(L, (const uint8_t *)"\xa2hi!", 4, &rules, NULL) == LP_INVALID_ARGUMENT);
  CHECK(lua_gettop(L) == 1);
}

static void test_a_state_without_codec_open_works(void) {
  lua_State *kept = L;
  int count;
  L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(is_written("return {1, setmetatable({}, {})}", "920190"));
  CHECK(is_refused("return io.stdout", "argument 1: cannot send a userdata"));
  CHECK(decode((const uint8_t *)"\x91\x80", 2, &count) == LP_OK);
  lua_close(L);
  L = kept;
}

/* ---- against libmpack, and against chance ------------------------------------- */

static uint64_t seed = 88172645463325252u;
static unsigned chance(unsigned below) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return (unsigned)(seed >> 33) % below;
}

static const char generator[] =
    "local random = math.random "
    "function value(depth)"
    "  local kind = random(depth > 0 and 9 or 7)"
    "  if kind == 1 then return random(0) >> random(0, 63)"
    "  elseif kind == 2 then return -(random(0) >> random(1, 63))"
    "  elseif kind == 3 then return string.unpack('d', string.pack('j', random(0)))"
    "  elseif kind == 4 then return random(-300, 300) + 0.5"
    "  elseif kind == 5 then return ('x'):rep(random(0, 300))"
    "  elseif kind == 6 then return string.pack('j', random(0)):rep(random(0, 40))"
    "  elseif kind == 7 then return random(2) == 1"
    "  end"
    "  local t = {}"
    "  for i = 1, random(0, 20) do"
    "    local v = value(depth - 1)"
    "    if kind == 8 then t[#t + 1] = v"
    "    else local k = value(0) if k == k then t[k] = v end end"
    "  end"
    "  return t "
    "end "
    "function same(a, b)"
    "  if type(a) ~= 'table' or type(b) ~= 'table' then"
    "    return math.type(a) == math.type(b) and (a == b or (a ~= a and b ~= b)) end"
    "  for k, v in pairs(a) do if not same(v, b[k]) then return false end end"
    "  for k in pairs(b) do if a[k] == nil then return false end end"
    "  return true "
    "end";

/* libmpack cuts integers below -2^32 when it writes them, and does not extend the sign
 * of a token that it read; both by hand here. */
static int write_signed(mpack_tokbuf_t *writer, char **to, size_t *space, int64_t value) {
  mpack_token_t token = mpack_pack_sint(value);
  if (value >= INT32_MIN) return mpack_write(writer, to, space, &token);
  *(*to)++ = (char)0xd3;
  for (int shift = 56; shift >= 0; shift -= 8) *(*to)++ = (char)(value >> shift);
  *space -= 9;
  return MPACK_OK;
}

/* Reads with libmpack and writes the same tokens with libmpack; the bytes written. */
static size_t rewrite(const buffer *in, char *out, size_t size) {
  mpack_tokbuf_t reader = MPACK_TOKBUF_INITIAL_VALUE, writer = MPACK_TOKBUF_INITIAL_VALUE;
  const char *from = (const char *)in->data;
  char *to = out;
  size_t left = in->length, space = size;
  while (left) {
    mpack_token_t token;
    if (mpack_read(&reader, &from, &left, &token) != MPACK_OK) return 0;
    int status = token.type == MPACK_TOKEN_SINT
                     ? write_signed(&writer, &to, &space, mpack_unpack_sint(token))
                     : mpack_write(&writer, &to, &space, &token);
    if (status != MPACK_OK) return 0;
  }
  return size - space;
}

static void test_libmpack_writes_the_same_bytes(void) {
  static char again[1 << 22];
  run(generator);
  for (int i = 0; i < 400; i++) {
    buffer out = {0};
    char code[100];
    int count;
    snprintf(code, sizeof code, "math.randomseed(%d) A = value(4) return A", i);
    if (encode(code, &out) != LP_OK) CHECK(!"encodes");
    size_t length = rewrite(&out, again, sizeof again);
    CHECK(length == out.length && !memcmp(again, out.data, length));
    CHECK(decode(out.data, out.length, &count) == LP_OK && count == 1);
    lua_setglobal(L, "B");
    run("return same(A, B)");
    if (!lua_toboolean(L, 1)) CHECK(!"same value");
    buffer_fini(&out);
  }
}

/* A random value by libmpack: maps have one pair at most, so that order is no matter. */
static void generate(mpack_tokbuf_t *writer, char **to, size_t *space, int depth) {
  static const char bytes[] = "abcdefghijklmnopqrstuvwxyz0123456789";
  mpack_token_t token = mpack_pack_nil();
  unsigned kind = chance(depth ? 7 : 5), length = chance(36);
  uint64_t bits = (uint64_t)chance(1u << 31) << 33 | (uint64_t)chance(1u << 31) << 2;
  double number = (double)(int64_t)bits * 0.37;
  if (kind == 1) token = mpack_pack_boolean(chance(2));
  if (kind == 2) token = mpack_pack_uint(bits >> (1 + chance(63)));
  if (kind == 4) token = chance(2) ? mpack_pack_float_fast(number) : mpack_pack_str(length);
  if (token.type == MPACK_TOKEN_FLOAT && token.length == 4) token = mpack_pack_nil();
  if (kind == 5) token = mpack_pack_array(length % 20);
  if (kind == 6) token = mpack_pack_map(1);
  if (kind == 3)
    write_signed(writer, to, space, -(int64_t)(bits >> (1 + chance(62))) - 1);
  else
    mpack_write(writer, to, space, &token);
  if (token.type == MPACK_TOKEN_STR && length) {
    mpack_token_t chunk = mpack_pack_chunk(bytes, length);
    mpack_write(writer, to, space, &chunk);
  }
  if (kind == 5)
    for (unsigned i = 0; i < length % 20; i++) generate(writer, to, space, depth - 1);
  if (kind != 6) return;
  token = mpack_pack_str(1);
  mpack_write(writer, to, space, &token);
  token = mpack_pack_chunk("k", 1);
  mpack_write(writer, to, space, &token);
  generate(writer, to, space, depth - 1);
}

/* Nil in a table is a hole and does not come back: such messages only have to be read. */
static void test_what_libmpack_writes_is_read(void) {
  static char bytes[1 << 22];
  int same = 0;
  for (int i = 0; i < 2000; i++) {
    mpack_tokbuf_t writer = MPACK_TOKBUF_INITIAL_VALUE;
    char *to = bytes;
    size_t space = sizeof bytes;
    int count;
    buffer out = {0};
    mpack_token_t head = mpack_pack_array(2);
    mpack_write(&writer, &to, &space, &head);
    generate(&writer, &to, &space, 3);
    generate(&writer, &to, &space, 3);
    size_t length = sizeof bytes - space;
    CHECK(decode((uint8_t *)bytes, length, &count) == LP_OK && count == 2);
    CHECK(codec_write(L, 1, 2, "value", &rules, &out, &why) == LP_OK);
    same += out.length == length && !memcmp(out.data, bytes, length);
    buffer_fini(&out);
  }
  CHECK(same > 800);
}

static int read_protected(lua_State *state) {
  const buffer *in = lua_touserdata(state, 1);
  int count;
  fault reason = {0};
  lua_settop(state, 0);
  lp_status status = codec_read(state, in->data, in->length, &rules, &count, &reason);
  if (status != LP_OK && (lua_gettop(state) != 0 || !reason.text[0]))
    luaL_error(state, "left over");
  if (status == LP_OK && lua_gettop(state) != count) luaL_error(state, "wrong count");
  return 0;
}

/* Nothing but an error or a value may come of these bytes. */
static bool survives(const uint8_t *bytes, size_t length) {
  buffer exact = {.data = malloc(length ? length : 1), .length = length, .capacity = length};
  memcpy(exact.data, bytes, length);
  lua_settop(L, 0);
  lua_pushcfunction(L, read_protected);
  lua_pushlightuserdata(L, &exact);
  bool well = lua_pcall(L, 1, 0, 0) == LUA_OK;
  if (!well) fprintf(stderr, "%s\n", luaL_tolstring(L, -1, NULL));
  free(exact.data);
  return well;
}

static void test_garbage_is_survived(void) {
  uint8_t bytes[64];
  rules.limits.decoded_bytes = 1 << 20;
  run(point_class);
  for (int i = 0; i < 100000; i++) {
    size_t length = chance(sizeof bytes);
    for (size_t k = 0; k < length; k++) bytes[k] = (uint8_t)chance(256);
    if (length) bytes[0] = (uint8_t)(0x90 | chance(16));
    CHECK(survives(bytes, length));
  }
}

static void test_damaged_messages_are_survived(void) {
  buffer out = {0};
  rules.limits.decoded_bytes = 1 << 20;
  run(generator);
  for (int i = 0; i < 60; i++) {
    char code[400];
    snprintf(code, sizeof code,
             "math.randomseed(%d) local P = {} P.__index = P lp.register('P%d', P)"
             " return value(2), setmetatable({a = value(1)}, P)",
             i, i);
    out.length = 0;
    CHECK(encode(code, &out) == LP_OK);
    size_t step = 1 + out.length / 500;
    for (size_t cut = 0; cut < out.length; cut += step) CHECK(survives(out.data, cut));
    for (int k = 0; k < 1000; k++) {
      size_t at = chance((unsigned)out.length);
      uint8_t kept = out.data[at];
      out.data[at] ^= (uint8_t)(1u << chance(8));
      CHECK(survives(out.data, out.length));
      if (chance(4)) out.data[at] = kept;
    }
  }
  buffer_fini(&out);
}

/* ---- allocation failures ------------------------------------------------------ */

static int scenario(lua_State *state) {
  luaL_openlibs(state);
  codec_open(state);
  lua_setglobal(state, "lp");
  if (luaL_dostring(state,
                    "local P = {} P.__index = P lp.register('P', P, {pack = function(p)"
                    " return p.x end, unpack = function(x) return setmetatable({x = x}, P) end})"
                    " local s = lp.pack(1, 'text', {1, 2, {a = ('b'):rep(1000)}}, lp.map{},"
                    " setmetatable({x = {}}, P)) for i = 1, 3 do s = lp.pack(lp.unpack(s)) end"))
    lua_error(state);
  return 0;
}

/* Lua tries again after a collection; so here it gets nothing from the n-th request on. */
static void test_memory_that_ends_at_any_point_is_an_error(void) {
  int status = LUA_ERRMEM, n;
  for (n = 1; n < 10000 && status != LUA_OK; n++) {
    requests_left = n;
    lua_State *state = lua_newstate(allocate, NULL);
    if (!state) continue;
    lua_pushcfunction(state, scenario);
    status = lua_pcall(state, 0, 0, 0);
    CHECK(status == LUA_OK || lua_isstring(state, -1));
    requests_left = -1;
    lua_close(state);
  }
  requests_left = -1;
  CHECK(n > 100 && status == LUA_OK);
}

#ifdef LP_FAULTS
enum { WHOLE = 0, FAILED_CLEANLY = 3 };

/* The scenario in a process of its own, in which the n-th allocation fails. */
static int run_with_fault(int n) {
  pid_t child = fork();
  if (child == 0) {
    char number[16];
    snprintf(number, sizeof number, "%d", n);
    setenv("LP_FAULT_ALLOC", number, 1);
    lua_State *state = lua_newstate(allocate, NULL);
    if (!state) _exit(FAILED_CLEANLY);
    lua_pushcfunction(state, scenario);
    int status = lua_pcall(state, 0, 0, 0);
    lua_close(state);
    _exit(status == LUA_OK ? WHOLE : FAILED_CLEANLY);
  }
  int status;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* One failed request of Lua's is made good by a collection and a second one, so this
 * sees the buffers' requests fail and collections at every point. */
static void test_every_failed_allocation_is_an_error(void) {
  int failed = 0;
  for (int n = 1; n <= 1200; n++) {
    int result = run_with_fault(n);
    CHECK(result == WHOLE || result == FAILED_CLEANLY);
    failed += result == FAILED_CLEANLY;
  }
  CHECK(failed > 0);
}
#endif

/* Each test in a fresh state. */
#define RUN_FRESH(test) (open_state(), ({ RUN(test); }), close_state())

int main(void) {
#ifdef LP_FAULTS
  RUN(test_every_failed_allocation_is_an_error);
#endif
  RUN(test_memory_that_ends_at_any_point_is_an_error);
  RUN_FRESH(test_integers_take_the_shortest_form);
  RUN_FRESH(test_every_integer_form_is_read);
  RUN_FRESH(test_floats_stay_floats_to_the_bit);
  RUN_FRESH(test_nil_and_booleans);
  RUN_FRESH(test_strings_are_text_or_bytes);
  RUN_FRESH(test_long_strings_are_checked_as_they_are_copied);
  RUN_FRESH(test_utf8_is_told_from_bytes);
  RUN_FRESH(test_keys_one_to_n_make_an_array);
  RUN_FRESH(test_other_keys_make_a_map);
  RUN_FRESH(test_sparse_tables_are_maps);
  RUN_FRESH(test_containers_take_the_shortest_header);
  RUN_FRESH(test_every_container_form_is_read);
  RUN_FRESH(test_empty_maps_keep_their_mark);
  RUN_FRESH(test_tables_are_read_raw);
  RUN_FRESH(test_a_shared_subtable_is_sent_twice);
  RUN_FRESH(test_refused_values_are_named_with_their_path);
  RUN_FRESH(test_cycles_are_refused);
  RUN_FRESH(test_nesting_is_bounded);
  RUN_FRESH(test_deep_mixed_tables_take_one_attempt);
  RUN_FRESH(test_a_message_of_exactly_the_limit_passes);
  RUN_FRESH(test_the_default_limit_is_64_mib);
  RUN_FRESH(test_the_number_of_values_is_bounded);
  RUN_FRESH(test_three_kinds_of_broken_bytes_have_three_errors);
  RUN_FRESH(test_lengths_near_the_end_of_their_type_are_harmless);
  RUN_FRESH(test_what_lua_cannot_hold_is_refused);
  RUN_FRESH(test_decoded_memory_is_bounded);
  RUN_FRESH(test_nested_promises_share_the_bytes);
  RUN_FRESH(test_odd_keys_can_be_bounded);
  RUN_FRESH(test_classes_travel);
  RUN_FRESH(test_large_instances_get_longer_headers);
  RUN_FRESH(test_instances_nest_as_deep_both_ways);
  RUN_FRESH(test_pack_functions_are_bounded);
  RUN_FRESH(test_classes_serve_userdata);
  RUN_FRESH(test_register_explains_mistakes);
  RUN_FRESH(test_errors_in_pack_and_unpack_pass);
  RUN_FRESH(test_hooks_serve_the_engine);
  RUN_FRESH(test_plain_peers_see_no_extensions);
  RUN_FRESH(test_pack_that_sends_is_refused);
  RUN_FRESH(test_one_value_is_written_alone);
  RUN_FRESH(test_one_value_is_read_alone);
  RUN_FRESH(test_a_state_without_codec_open_works);
  RUN_FRESH(test_libmpack_writes_the_same_bytes);
  RUN_FRESH(test_what_libmpack_writes_is_read);
  RUN_FRESH(test_garbage_is_survived);
  RUN_FRESH(test_damaged_messages_are_survived);
  return TEST_END();
}
