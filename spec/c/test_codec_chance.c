/* The codec against libmpack, and against chance. */
#include <mpack.h>

#include "codec_state.h"

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
  run(POINT_CLASS);
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

int main(void) {
  RUN_FRESH(test_libmpack_writes_the_same_bytes);
  RUN_FRESH(test_what_libmpack_writes_is_read);
  RUN_FRESH(test_garbage_is_survived);
  RUN_FRESH(test_damaged_messages_are_survived);
  return TEST_END();
}
