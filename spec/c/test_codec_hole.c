/* A long string that the codec leaves out of the bytes: filled in they are those of codec_write. */
#include "codec_state.h"

static const hole none = {0};

/* Is what `code` gives written with a string left out, or without (`left`), as codec_write
 * writes it? Beside bytes that are there already. */
static bool is_same(const char *code, bool left) {
  buffer whole = {0}, parts = {0};
  hole hole = none;
  CHECK(encode(code, &whole) == LP_OK);
  buffer_append(&parts, "before", 6);
  int count = lua_gettop(L);
  bool well = codec_write_around(L, 1, count, "argument", &rules, &parts, &hole, &why) == LP_OK &&
              lua_gettop(L) == count && left == (hole.length > 0) && left == (hole.bytes != NULL);
  well = well && (!left || parts.length < whole.length) && buffer_fill(&parts, &hole);
  well = well && parts.length == whole.length + 6 && !memcmp(parts.data, "before", 6) &&
         !memcmp(parts.data + 6, whole.data, whole.length);
  if (!well) fprintf(stderr, "%s: %s\n", code, why.text);
  buffer_fini(&whole);
  buffer_fini(&parts);
  close_state(); /* classes have one name each */
  open_state();
  return well;
}

#define LONG "local long = ('x'):rep(70000) "

static void test_strings_from_the_threshold_on_are_left_out(void) {
  CHECK(is_same("return ('x'):rep(65535)", false));
  CHECK(is_same("return ('x'):rep(65536)", true));
  CHECK(is_same("return ('x'):rep(65537)", true));
  CHECK(is_same("return 'short', 1, {a = 2}", false));
}

static void test_text_and_bytes_keep_their_heads(void) {
  CHECK(is_same("return ('äöü'):rep(30000)", true));
  CHECK(is_same("return ('x'):rep(70000) .. '\\xff'", true));
  CHECK(is_same("return '\\xff' .. ('x'):rep(70000)", true));
  CHECK(is_same("return ('\\xe4'):rep(70000)", true));
}

static void test_what_surrounds_it_stays_in_place(void) {
  CHECK(is_same(LONG "return 1, long, 2, 'three'", true));
  CHECK(is_same(LONG "return long, long, long", true));
  CHECK(is_same(LONG "return {1, {long, 2}, 3}", true));
  CHECK(is_same(LONG "return {[long] = 1}", true));
  CHECK(is_same(LONG "return {body = long}, {}", true));
  CHECK(is_same(LONG "return lp.array{1, nil, long}", true));
}

/* Heads that get longer move what is behind them, and the place of the string with it. */
static void test_heads_that_grow_take_it_along(void) {
  CHECK(is_same(LONG "local t = {} for i = 1, 40 do t['k' .. i] = i end t.long = long"
                     " return 'a', t, 'b'",
                true));
  CHECK(is_same(LONG "local t = {} for i = 1, 40 do t['k' .. i] = i end return long, t", true));
  CHECK(is_same("local P = {} P.__index = P lp.register('Plain', P)" LONG
                "return setmetatable({long = long, n = 1}, P), 2",
                true));
}

/* A table that is a map after all is put together from its bytes. */
static void test_a_mixed_table_has_all_bytes(void) {
  CHECK(is_same(LONG "return {1, long, 3, k = 4}", false));
  CHECK(is_same(LONG "return long, {1, 2, 3, k = 4}", true));
}

/* They may do anything, and free the string. */
static void test_functions_that_run_have_all_bytes(void) {
  CHECK(is_same(POINT_CLASS LONG "return long, setmetatable({x = 1, y = 2}, Point)", false));
  CHECK(is_same(POINT_CLASS LONG "return setmetatable({x = 1, y = 2}, Point), long", false));
  CHECK(is_same(POINT_CLASS LONG "return setmetatable({x = long, y = 2}, Point)", false));
}

static void test_a_pack_function_runs_once(void) {
  buffer out = {0};
  hole hole = none;
  int count = run(LONG
                  "runs = 0 local P = {} P.__index = P lp.register('Once', P, {pack ="
                  " function() runs = runs + 1 return 1 end, unpack = function() end})"
                  " return setmetatable({}, P), long, setmetatable({}, P)");
  CHECK(codec_write_around(L, 1, count, "argument", &rules, &out, &hole, &why) == LP_OK);
  lua_getglobal(L, "runs");
  CHECK(lua_tointeger(L, -1) == 2 && !hole.length);
  buffer_fini(&out);
}

/* The limit counts what is left out, to the byte and with the same words. */
static void limit_is_the_same(const char *code, size_t limit) {
  buffer whole = {0}, parts = {0};
  char words[sizeof why.text];
  hole hole = none;
  rules.limits.message_bytes = limit;
  lp_status status = encode(code, &whole);
  snprintf(words, sizeof words, "%s", why.text);
  why.text[0] = 0;
  int count = run(code);
  CHECK(codec_write_around(L, 1, count, "argument", &rules, &parts, &hole, &why) == status);
  if (status != LP_OK) CHECK(!strcmp(words, why.text) && !parts.length && !hole.length);
  rules.limits = codec_default_limits;
  buffer_fini(&whole);
  buffer_fini(&parts);
}

static void test_the_limit_counts_it(void) {
  for (size_t limit = 69990; limit < 70030; limit++) {
    limit_is_the_same(LONG "return long", limit);
    limit_is_the_same(LONG "return long, 'some more', 1.5", limit);
    limit_is_the_same(LONG "return 'some', 1.5, {a = long}", limit);
  }
  limit_is_the_same(LONG "return long, long", 100000);
  limit_is_the_same(LONG "local t = {long} t[2] = t return t", 100000);
  limit_is_the_same(LONG "return long, {1, print}", 100000);
}

int main(void) {
  open_state();
  RUN(test_strings_from_the_threshold_on_are_left_out);
  RUN(test_text_and_bytes_keep_their_heads);
  RUN(test_what_surrounds_it_stays_in_place);
  RUN(test_heads_that_grow_take_it_along);
  RUN(test_a_mixed_table_has_all_bytes);
  RUN(test_functions_that_run_have_all_bytes);
  RUN(test_a_pack_function_runs_once);
  RUN(test_the_limit_counts_it);
  close_state();
  return TEST_END();
}
