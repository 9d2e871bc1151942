/* The codec: instances of registered classes, and the engine's own values. */
#include "codec_state.h"

/* ---- classes ------------------------------------------------------------------ */

static void test_classes_travel(void) {
  char code[2000];
  snprintf(code, sizeof code, "%s return setmetatable({x = 1, y = 2}, Point)", POINT_CLASS);
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

static void test_pack_functions_that_change_the_table_around_are_refused(void) {
  CHECK(
      is_refused("local C, t = {} C.__index = C lp.register('C', C, {pack = function(c)"
                 " t[2] = nil return 1 end, unpack = print})"
                 " t = {setmetatable({}, C), 2, 3} return t",
                 "argument 1: a pack function changed the table it is in"));
}

static void test_pack_functions_may_pack(void) {
  CHECK(run("local C = {} C.__index = C lp.register('C', C, {pack = function(c)"
            " return lp.pack(c.v, c.v and {}) end, unpack = function(s) return lp.unpack(s) end})"
            " local a = setmetatable({v = 'inner'}, C)"
            " assert(lp.unpack(lp.pack({a, a}))[2] == 'inner') return 1") == 1);
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
  snprintf(code, sizeof code, "%s return setmetatable({x = 1}, Point)", POINT_CLASS);
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

int main(void) {
  RUN_FRESH(test_classes_travel);
  RUN_FRESH(test_large_instances_get_longer_headers);
  RUN_FRESH(test_instances_nest_as_deep_both_ways);
  RUN_FRESH(test_pack_functions_are_bounded);
  RUN_FRESH(test_pack_functions_that_change_the_table_around_are_refused);
  RUN_FRESH(test_pack_functions_may_pack);
  RUN_FRESH(test_classes_serve_userdata);
  RUN_FRESH(test_register_explains_mistakes);
  RUN_FRESH(test_errors_in_pack_and_unpack_pass);
  RUN_FRESH(test_hooks_serve_the_engine);
  RUN_FRESH(test_plain_peers_see_no_extensions);
  RUN_FRESH(test_pack_that_sends_is_refused);
  RUN_FRESH(test_one_value_is_written_alone);
  RUN_FRESH(test_one_value_is_read_alone);
  RUN_FRESH(test_a_state_without_codec_open_works);
  return TEST_END();
}
