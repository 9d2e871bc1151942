/* The codec: bytes of every format, exact values. */
#include <math.h>

#include "codec_state.h"
#include "wire/text.h"

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
  static char from[70000];
  static uint8_t to[sizeof from];
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

/* A byte beyond ASCII is seen at every place of a string of every short length. */
static void test_short_strings_are_checked_as_they_are_copied(void) {
  uint8_t to[400];
  char from[400];
  memset(from, 'a', sizeof from);
  for (size_t length = 1; length <= 300; length++)
    for (size_t at = 0; at < length; at++) {
      from[at] = '\xff';
      bool noticed = length <= 32 ? !text_copy_ascii(to, from, length) : true;
      CHECK(noticed && !text_copy(to, from, length) && !memcmp(from, to, length));
      from[at] = 'a';
      CHECK(text_copy(to, from, length) && !memcmp(from, to, length));
      if (length <= 32) CHECK(text_copy_ascii(to, from, length) && !memcmp(from, to, length));
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

/* Wherever its elements are kept, and in whatever order they are met. */
static void test_arrays_in_the_hash_part_are_arrays(void) {
  buffer out = {0};
  int count;
  CHECK(encode("local t = {} for i = 70000, 1, -1 do t[i] = i end return t", &out) == LP_OK);
  CHECK(out.length > 6 && !memcmp(out.data, "\x91\xdd\x00\x01\x11\x70\x01\x02", 8));
  CHECK(decode(out.data, out.length, &count) == LP_OK && lua_rawlen(L, 1) == 70000);
  CHECK(
      is_written("local t = {a = 1, b = 2, c = 3} t.a, t.b, t.c = nil for i = 3, 1, -1 do"
                 " t[i] = {i} end return t",
                 "93910191029103"));
  buffer_fini(&out);
}

/* What begins as an array and is none: its elements get their keys afterwards. */
static void test_elements_written_before_another_key_are_kept(void) {
  buffer out = {0};
  int count;
  CHECK(is_written("return {{1, 'a'}, {x = 2}, k = 3}", "83 01 9201a161 02 81a17802 a16b03"));
  CHECK(encode("local t = {x = 'end'} for i = 1, 300 do t[i] = {i, ('s'):rep(i), {{}, 1.5}} end"
               " return t",
               &out) == LP_OK);
  CHECK(decode(out.data, out.length, &count) == LP_OK && count == 1);
  lua_setglobal(L, "t");
  CHECK(run("assert(t.x == 'end') for i = 1, 300 do assert(t[i][1] == i and #t[i][2] == i and"
            " t[i][3][2] == 1.5) t[i] = nil end assert(next(t) == 'x') return not next(t, 'x')") ==
        1);
  CHECK(lua_toboolean(L, 1));
  buffer_fini(&out);
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

int main(void) {
  RUN_FRESH(test_integers_take_the_shortest_form);
  RUN_FRESH(test_every_integer_form_is_read);
  RUN_FRESH(test_floats_stay_floats_to_the_bit);
  RUN_FRESH(test_nil_and_booleans);
  RUN_FRESH(test_strings_are_text_or_bytes);
  RUN_FRESH(test_long_strings_are_checked_as_they_are_copied);
  RUN_FRESH(test_short_strings_are_checked_as_they_are_copied);
  RUN_FRESH(test_utf8_is_told_from_bytes);
  RUN_FRESH(test_keys_one_to_n_make_an_array);
  RUN_FRESH(test_arrays_in_the_hash_part_are_arrays);
  RUN_FRESH(test_elements_written_before_another_key_are_kept);
  RUN_FRESH(test_other_keys_make_a_map);
  RUN_FRESH(test_sparse_tables_are_maps);
  RUN_FRESH(test_containers_take_the_shortest_header);
  RUN_FRESH(test_every_container_form_is_read);
  RUN_FRESH(test_empty_maps_keep_their_mark);
  RUN_FRESH(test_tables_are_read_raw);
  RUN_FRESH(test_a_shared_subtable_is_sent_twice);
  return TEST_END();
}
