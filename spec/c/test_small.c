/* The codec's short way does what the long way does, or nothing; and the strings it keeps. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "test.h"
#include "wire/codec_small.h"
#include "wire/strings.h"

static lua_State *L;
static codec rules;
static fault why;
static strings kept;
static long requests_left = -1; /* requests for memory that are still granted; -1: all */

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
  kept = (strings){0};
  L = lua_newstate(allocate, NULL);
  luaL_openlibs(L);
  codec_open(L);
  lua_setglobal(L, "lp");
  rules = (codec){.limits = codec_default_limits, .strings = &kept};
}

static uint64_t seed = 88172645463325252u;
static size_t chance(size_t below) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return (size_t)(seed >> 20) % below;
}

static void push_string(void) {
  char bytes[400];
  size_t length = chance(10) ? chance(60) : chance(sizeof bytes);
  unsigned highest = chance(4) ? 127 : 256, lowest = chance(2) ? 'a' : 0;
  for (size_t i = 0; i < length; i++) bytes[i] = (char)(lowest + chance(highest - lowest));
  lua_pushlstring(L, bytes, length);
}

static void push_any(void) {
  int64_t bits = (int64_t)(seed * UINT64_C(0x9e3779b97f4a7c15)) >> chance(64);
  switch (chance(8)) {
    case 0: lua_pushnil(L); return;
    case 1: lua_pushboolean(L, (int)chance(2)); return;
    case 2: lua_pushinteger(L, bits); return;
    case 3: lua_pushinteger(L, (lua_Integer)chance(300) - 150); return;
    case 4: lua_pushnumber(L, (double)bits / 3); return;
    case 5:
      if (chance(8)) return push_string();
      lua_newtable(L);
      return;
    default: push_string();
  }
}

/* Both ways write the same, where the short one writes at all. */
static bool writes_the_same(int count, size_t room) {
  buffer whole = {0};
  uint8_t *small = malloc(room + 1),
          *end = codec_put_small(L, 1, count, &rules, small, small + room);
  bool well = codec_write(L, 1, count, "argument", &rules, &whole, &why) == LP_OK;
  bool same = !end || (well && (size_t)(end - small) == whole.length &&
                       !memcmp(small, whole.data, whole.length));
  free(small);
  buffer_fini(&whole);
  return same;
}

static void test_it_writes_as_the_codec_does(void) {
  open_state();
  for (int i = 0; i < 20000; i++) {
    int count = (int)chance(chance(10) ? 5 : 20);
    lua_settop(L, 0);
    for (int k = 0; k < count; k++) push_any();
    CHECK(writes_the_same(count, chance(700)));
    CHECK(lua_gettop(L) == count);
  }
  lua_close(L);
}

static void test_it_writes_what_most_calls_are(void) {
  open_state();
  uint8_t out[100], *stop = out + sizeof out;
  luaL_dostring(L, "return 'text', 'bytes\\xff\\xfe', 42, -1, 0.5, true, nil");
  CHECK(codec_put_small(L, 1, 1, &rules, out, stop) == out + 6);
  CHECK(!codec_put_small(L, 1, 2, &rules, out, stop)); /* not for bytes that are no text */
  CHECK(codec_put_small(L, 3, 5, &rules, out, stop) == out + 14);
  CHECK(!codec_put_small(L, 3, 5, &rules, out, out + 13));
  lua_settop(L, 0);
  CHECK(codec_put_small(L, 1, 0, &rules, out, stop) == out + 1 && out[0] == 0x90);
  lua_newtable(L);
  CHECK(!codec_put_small(L, 1, 1, &rules, out, stop));
  rules.limits.message_bytes = 0; /* the long way has the words for that */
  CHECK(!codec_put_small(L, 2, 0, &rules, out, stop));
  lua_close(L);
}

static bool same_values(int first, int second, int count) {
  for (int i = 0; i < count; i++) {
    bool same = lua_rawequal(L, first + i, second + i) &&
                lua_isinteger(L, first + i) == lua_isinteger(L, second + i);
    bool nans = lua_type(L, first + i) == LUA_TNUMBER && !lua_rawequal(L, first + i, first + i) &&
                lua_type(L, second + i) == LUA_TNUMBER;
    if (!same && !nans) return false;
  }
  return true;
}

/* Both ways read the same, where the short one reads at all. */
static bool reads_the_same(const uint8_t *bytes, size_t length) {
  uint8_t *exact = malloc(length + 1);
  memcpy(exact, bytes, length);
  lua_settop(L, 0);
  int whole, small = codec_read_small(L, L, exact, length, &rules, NULL);
  bool same = lua_gettop(L) == (small < 0 ? 0 : small);
  if (small >= 0)
    same = codec_read(L, exact, length, &rules, &whole, &why) == LP_OK && whole == small &&
           same_values(1, small + 1, small);
  free(exact);
  return same;
}

/* The same without making anything: what is read must be what was read before. */
static bool reads_quickly(const uint8_t *bytes, size_t length, bool kept_strings) {
  lua_settop(L, 0);
  int small = codec_read_small(L, L, bytes, length, &rules, NULL);
  requests_left = 0;
  int quick = codec_read_small(NULL, L, bytes, length, &rules, NULL);
  requests_left = -1;
  if (quick < 0) return !kept_strings && lua_gettop(L) == (small < 0 ? 0 : small);
  return quick == small && same_values(1, small + 1, small);
}

static void test_it_reads_what_is_kept_without_making_anything(void) {
  open_state();
  for (int i = 0; i < 20000; i++) {
    buffer out = {0};
    int count = (int)chance(18);
    lua_settop(L, 0);
    for (int k = 0; k < count; k++) push_any();
    codec_write(L, 1, count, "argument", &rules, &out, &why);
    CHECK(reads_quickly(out.data, out.length, false));
    buffer_fini(&out);
  }
  lua_close(L);
  open_state(); /* with nothing kept */
  const uint8_t plain[] = {0x93, 0x2a, 0xc3, 0xa4, 'n', 'a', 'm', 'e'};
  CHECK(reads_quickly(plain, sizeof plain, true));
  lua_close(L);
}

static void test_it_reads_as_the_codec_does(void) {
  open_state();
  for (int i = 0; i < 30000; i++) {
    buffer out = {0};
    int count = (int)chance(18);
    lua_settop(L, 0);
    for (int k = 0; k < count; k++) push_any();
    codec_write(L, 1, count, "argument", &rules, &out, &why);
    CHECK(reads_the_same(out.data, out.length));
    if (out.length) { /* and spoilt ones */
      out.data[chance(out.length)] ^= (uint8_t)(1u << chance(8));
      CHECK(reads_the_same(out.data, chance(out.length + 1)));
    }
    buffer_fini(&out);
  }
  lua_close(L);
}

static bool same_value(lua_State *a, int i, lua_State *b, int k) {
  int type = lua_type(a, i);
  if (type != lua_type(b, k)) return false;
  if (type == LUA_TSTRING) {
    size_t length, other;
    const char *bytes = lua_tolstring(a, i, &length);
    return !memcmp(bytes, lua_tolstring(b, k, &other), length) && length == other;
  }
  if (type == LUA_TBOOLEAN) return lua_toboolean(a, i) == lua_toboolean(b, k);
  if (type != LUA_TNUMBER) return type == LUA_TNIL;
  if (lua_isinteger(a, i)) return lua_isinteger(b, k) && lua_tointeger(a, i) == lua_tointeger(b, k);
  double x = lua_tonumber(a, i), y = lua_tonumber(b, k);
  return !lua_isinteger(b, k) && !memcmp(&x, &y, sizeof x);
}

/* What L's values are in the state `to`, copied at once, without anything made there. With
 * `all_kept` they are of the kind that can be, and their strings are kept in `to`. */
static bool copies_the_same(lua_State *to, const codec *there, int count, bool all_kept) {
  buffer out = {0};
  bool well = codec_write(L, 1, count, "argument", &rules, &out, &why) == LP_OK;
  requests_left = 0;
  size_t bytes = codec_copy_small(L, 1, count, to, there);
  requests_left = -1;
  bool same = lua_gettop(to) == (bytes ? count : 0) && lua_gettop(L) == count;
  for (int i = 1; bytes && i <= count; i++) same = same && same_value(L, i, to, i);
  /* bytes that are no text have a head that may be longer by one */
  if (bytes) same = same && well && bytes <= out.length && out.length - bytes <= (size_t)count;
  if (bytes) same = same && bytes <= CODEC_COPY_MAX;
  if (all_kept) same = same && bytes == out.length;
  lua_settop(to, 0);
  buffer_fini(&out);
  return same;
}

static void test_it_copies_what_writing_and_reading_give(void) {
  open_state();
  strings kept_there = {0};
  codec there = {.limits = codec_default_limits, .strings = &kept_there};
  lua_State *to = lua_newstate(allocate, NULL);
  codec_open(to);
  lua_settop(to, 0);
  for (int i = 0; i < 20000; i++) {
    int count = (int)chance(18);
    lua_settop(L, 0);
    for (int k = 0; k < count; k++) push_any();
    for (int k = 1; k <= count && chance(4); k++) { /* most strings come again */
      size_t length;
      if (lua_type(L, k) != LUA_TSTRING) continue;
      const char *bytes = lua_tolstring(L, k, &length);
      strings_push(&kept_there, to, to, bytes, length);
      lua_settop(to, 0);
    }
    lua_settop(to, 0);
    CHECK(copies_the_same(to, &there, count, false));
  }
  lua_settop(L, 0);
  luaL_dostring(L,
                "return 'a name', 'another name of all but forty characters', 42, 0.5, true, nil");
  for (int k = 1; k <= 2; k++) {
    for (int again = 0; again < 40; again++) {
      strings_push(&kept_there, to, to, lua_tostring(L, k), strlen(lua_tostring(L, k)));
      lua_settop(to, 0);
    }
  }
  CHECK(copies_the_same(to, &there, 6, true));
  lua_close(to);
  lua_close(L);
}

/* How many of the strings are kept. */
static int count_kept(const char *const *texts, int count) {
  int held = 0;
  for (int k = 0; k < count; k++)
    for (int i = 0; i < STRINGS_PLACES; i++)
      if (kept.places[i].length == strlen(texts[k]) &&
          !memcmp(kept.places[i].bytes, texts[k], kept.places[i].length)) {
        held++;
        break;
      }
  return held;
}

static void test_strings_are_kept_that_come_again(void) {
  static const char *const names[] = {"echo", "a name of some length", "state"};
  open_state();
  for (int i = 0; i < 2000; i++) { /* among three times as many that come once */
    char text[16];
    strings_push(&kept, L, L, names[i % 3], strlen(names[i % 3]));
    for (int k = 0; k < 3; k++) {
      int length = snprintf(text, sizeof text, "once %d.%d", i, k);
      strings_push(&kept, L, L, text, (size_t)length);
      CHECK(!strcmp(lua_tostring(L, -1), text));
    }
    lua_settop(L, 0);
  }
  /* They are put out now and then, and come back soon. */
  int held = 0;
  for (int i = 0; i < 400; i++) {
    strings_push(&kept, L, L, names[i % 3], strlen(names[i % 3]));
    CHECK(!strcmp(lua_tostring(L, -1), names[i % 3]));
    lua_settop(L, 0);
    if (i % 40 == 39) lua_gc(L, LUA_GCCOLLECT);
    held = count_kept(names, 3);
  }
  CHECK(held == 3);
  lua_close(L);
}

static void test_any_string_is_itself(void) {
  open_state();
  for (int i = 0; i < 60000; i++) {
    char bytes[STRINGS_LENGTH + 3];
    size_t length = chance(sizeof bytes);
    for (size_t k = 0; k < length; k++) bytes[k] = (char)chance(k % 5 ? 2 : 3);
    strings_push(&kept, L, L, bytes, length);
    size_t got;
    const char *text = lua_tolstring(L, -1, &got);
    CHECK(got == length && !memcmp(text, bytes, length));
    lua_pop(L, 1);
  }
  lua_close(L);
}

static int push_twice(lua_State *state) {
  for (int i = 0; i < 3; i++) strings_push(&kept, state, state, "a name of some length", 21);
  return 0;
}

static void test_a_cache_without_memory_is_sound(void) {
  for (long granted = 0; granted < 12; granted++) {
    open_state();
    lua_gc(L, LUA_GCSTOP);
    lua_pushcfunction(L, push_twice);
    requests_left = granted;
    int status = lua_pcall(L, 0, 0, 0);
    requests_left = -1;
    CHECK(status == LUA_OK || status == LUA_ERRMEM);
    lua_settop(L, 0);
    lua_gc(L, LUA_GCCOLLECT);
    for (int i = 0; i < 3; i++) strings_push(&kept, L, L, "a name of some length", 21);
    CHECK(!strcmp(lua_tostring(L, 3), "a name of some length"));
    lua_close(L);
  }
}

int main(void) {
  RUN(test_it_writes_as_the_codec_does);
  RUN(test_it_writes_what_most_calls_are);
  RUN(test_it_reads_as_the_codec_does);
  RUN(test_it_reads_what_is_kept_without_making_anything);
  RUN(test_it_copies_what_writing_and_reading_give);
  RUN(test_strings_are_kept_that_come_again);
  RUN(test_any_string_is_itself);
  RUN(test_a_cache_without_memory_is_sound);
  return TEST_END();
}
