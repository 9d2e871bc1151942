/* The codec: what it refuses to write, and bytes from peers that do not play by the rules. */
#include "codec_state.h"

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

/* Cycles are looked for a few levels down, but named where they close. */
static void test_cycles_are_named_where_they_close(void) {
  CHECK(is_refused("local t = {} t.t = t return {{{{{{{{{{t}}}}}}}}}}",
                   "argument 1: [1][1][1][1][1][1][1][1][1][1].t: cannot send a cyclic table"));
  CHECK(
      is_refused("local t = {} local inner = t for i = 1, 20 do inner.x = {} inner = inner.x end"
                 " inner.back = t.x.x return t",
                 "argument 1: .x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.back: "
                 "cannot send a cyclic table"));
  CHECK(is_refused("local a, b, c = {}, {}, {} a.b, b.c, c.a = b, c, a return {a = {1, a}}",
                   "argument 1: .a[2].b.c.a: cannot send a cyclic table"));
  CHECK(is_refused("local t = {1, {}} t[2].t = t return lp.array(t)",
                   "argument 1: [2].t: cannot send a cyclic table"));
  rules.limits.depth = 3;
  CHECK(is_refused("local t = {} t.t = t return {t}",
                   "argument 1: [1].t: cannot send a cyclic table"));
  rules.limits.depth = 1;
  CHECK(is_refused("local t = {} t.t = t return t", "argument 1: .t: cannot send a cyclic table"));
}

static void test_what_contains_itself_is_cyclic_before_it_is_large(void) {
  rules.limits.message_bytes = 1000;
  CHECK(is_refused("local t = {text = ('x'):rep(300)} t[1] = t t[2] = t return t",
                   "argument 1: [1]: cannot send a cyclic table"));
}

/* Not a cycle: the same table beside itself, and again further down. */
static void test_shared_tables_are_no_cycles(void) {
  buffer out = {0};
  int count;
  CHECK(encode("local leaf = {1} local t = {leaf, leaf} for i = 1, 12 do t = {leaf, t, leaf} end"
               " return t, t",
               &out) == LP_OK);
  CHECK(decode(out.data, out.length, &count) == LP_OK && count == 2);
  buffer_fini(&out);
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

int main(void) {
  RUN_FRESH(test_refused_values_are_named_with_their_path);
  RUN_FRESH(test_cycles_are_refused);
  RUN_FRESH(test_cycles_are_named_where_they_close);
  RUN_FRESH(test_what_contains_itself_is_cyclic_before_it_is_large);
  RUN_FRESH(test_shared_tables_are_no_cycles);
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
  return TEST_END();
}
