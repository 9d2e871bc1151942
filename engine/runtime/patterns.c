/* See patterns.h. A backtracking matcher for the patterns of the reference manual (§6.4.1); each
 * comparison it makes is a step. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include "runtime/patterns.h"

#include <ctype.h>
#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>

enum {
  CAPTURES = 32,
  NESTING = 200, /* of match_here in itself: bounds the C stack */
  OPEN = -1,     /* length of a capture that has not ended */
  POSITION = -2  /* of one that is a position */
};

typedef struct capture {
  const char *start;
  ptrdiff_t length;
} capture;

typedef struct matcher {
  lua_State *L;
  const char *begin, *end; /* the subject */
  const char *stop;        /* the pattern's end */
  lua_Integer steps;       /* left */
  int depth, count;
  capture captures[CAPTURES];
} matcher;

/* The bounds, as upvalues of each function. */
enum { UP_STEPS = 1, UP_BYTES = 2 };

static const char *match_here(matcher *m, const char *s, const char *p);

static void step(matcher *m) {
  if (m->steps-- > 0) return;
  luaL_error(m->L, "pattern too complex: gave up after %I steps (a bound of this sandboxed node)",
             lua_tointeger(m->L, lua_upvalueindex(UP_STEPS)));
}

/* ---- single characters ------------------------------------------------------ */

/* The end of the item that matches one character and begins at `p`. */
static const char *item_end(matcher *m, const char *p) {
  char first = *p++;
  if (first == '%') {
    if (p == m->stop) luaL_error(m->L, "malformed pattern (ends with '%%')");
    return p + 1;
  }
  if (first != '[') return p;
  if (p < m->stop && *p == '^') p++;
  do { /* a bracket that comes first is one of the set */
    if (p == m->stop) luaL_error(m->L, "malformed pattern (missing ']')");
    if (*p++ == '%') {
      if (p == m->stop) luaL_error(m->L, "malformed pattern (missing ']')");
      p++;
    }
  } while (p == m->stop || *p != ']');
  return p + 1;
}

static bool in_class(int c, int letter) {
  bool inside;
  switch (tolower(letter)) {
    case 'a': inside = isalpha(c); break;
    case 'c': inside = iscntrl(c); break;
    case 'd': inside = isdigit(c); break;
    case 'g': inside = isgraph(c); break;
    case 'l': inside = islower(c); break;
    case 'p': inside = ispunct(c); break;
    case 's': inside = isspace(c); break;
    case 'u': inside = isupper(c); break;
    case 'w': inside = isalnum(c); break;
    case 'x': inside = isxdigit(c); break;
    default: return letter == c;
  }
  return isupper(letter) ? !inside : inside;
}

/* `p` is at the bracket that opens the set, `last` at the one that closes it. */
static bool in_set(int c, const char *p, const char *last) {
  bool wanted = true;
  if (p[1] == '^') {
    wanted = false;
    p++;
  }
  while (++p < last) {
    if (*p == '%') {
      if (in_class(c, (unsigned char)*++p)) return wanted;
    } else if (p[1] == '-' && p + 2 < last) {
      if ((unsigned char)p[0] <= c && c <= (unsigned char)p[2]) return wanted;
      p += 2;
    } else if ((unsigned char)*p == c) {
      return wanted;
    }
  }
  return !wanted;
}

/* Does the item from `p` to `after` match the character at `s`? */
static bool match_one(matcher *m, const char *s, const char *p, const char *after) {
  step(m);
  if (s >= m->end) return false;
  int c = (unsigned char)*s;
  switch (*p) {
    case '.': return true;
    case '%': return in_class(c, (unsigned char)p[1]);
    case '[': return in_set(c, p, after - 1);
    default: return (unsigned char)*p == c;
  }
}

/* ---- items that are more ---------------------------------------------------- */

static const char *match_most(matcher *m, const char *s, const char *p, const char *after) {
  ptrdiff_t count = 0;
  while (match_one(m, s + count, p, after)) count++;
  for (; count >= 0; count--) {
    const char *found = match_here(m, s + count, after + 1);
    if (found) return found;
  }
  return NULL;
}

static const char *match_least(matcher *m, const char *s, const char *p, const char *after) {
  for (;; s++) {
    const char *found = match_here(m, s, after + 1);
    if (found) return found;
    if (!match_one(m, s, p, after)) return NULL;
  }
}

/* %bxy, `p` at the x. */
static const char *match_balanced(matcher *m, const char *s, const char *p) {
  if (p + 1 >= m->stop) luaL_error(m->L, "malformed pattern (missing arguments to '%%b')");
  if (s >= m->end || *s != p[0]) return NULL;
  int open = 1;
  while (++s < m->end) {
    step(m);
    if (*s == p[1]) {
      if (--open == 0) return s + 1;
    } else if (*s == p[0]) {
      open++;
    }
  }
  return NULL;
}

static const char *match_frontier(matcher *m, const char *s, const char *p) {
  if (p >= m->stop || *p != '[') luaL_error(m->L, "missing '[' after '%%f' in pattern");
  const char *after = item_end(m, p);
  int before = s == m->begin ? 0 : (unsigned char)s[-1];
  int now = s < m->end ? (unsigned char)*s : 0;
  step(m);
  if (in_set(before, p, after - 1) || !in_set(now, p, after - 1)) return NULL;
  return match_here(m, s, after);
}

/* %1, … */
static const char *match_back(matcher *m, const char *s, const char *p) {
  int index = *p - '1';
  if (index < 0 || index >= m->count || m->captures[index].length == OPEN)
    luaL_error(m->L, "invalid capture index %%%d", index + 1);
  size_t length = m->captures[index].length < 0 ? 0 : (size_t)m->captures[index].length;
  m->steps -= (lua_Integer)length;
  step(m);
  if ((size_t)(m->end - s) < length || memcmp(m->captures[index].start, s, length) != 0)
    return NULL;
  return match_here(m, s + length, p + 1);
}

static const char *open_capture(matcher *m, const char *s, const char *p, ptrdiff_t length) {
  if (m->count >= CAPTURES) luaL_error(m->L, "too many captures");
  m->captures[m->count++] = (capture){s, length};
  const char *found = match_here(m, s, p);
  if (!found) m->count--;
  return found;
}

static const char *close_capture(matcher *m, const char *s, const char *p) {
  int index = m->count - 1;
  while (index >= 0 && m->captures[index].length != OPEN) index--;
  if (index < 0) luaL_error(m->L, "invalid pattern capture");
  m->captures[index].length = s - m->captures[index].start;
  const char *found = match_here(m, s, p);
  if (!found) m->captures[index].length = OPEN;
  return found;
}

/* An item with what may follow it: *, +, -, ?. */
static const char *match_item(matcher *m, const char *s, const char *p) {
  const char *after = item_end(m, p);
  char suffix = after < m->stop ? *after : 0;
  switch (suffix) {
    case '*': return match_most(m, s, p, after);
    case '+': return match_one(m, s, p, after) ? match_most(m, s + 1, p, after) : NULL;
    case '-': return match_least(m, s, p, after);
    case '?': {
      const char *found = match_one(m, s, p, after) ? match_here(m, s + 1, after + 1) : NULL;
      return found ? found : match_here(m, s, after + 1);
    }
    default: return match_one(m, s, p, after) ? match_here(m, s + 1, after) : NULL;
  }
}

static const char *match_special(matcher *m, const char *s, const char *p) {
  const char *end;
  switch (p[1]) {
    case 'b': end = match_balanced(m, s, p + 2); return end ? match_here(m, end, p + 4) : NULL;
    case 'f': return match_frontier(m, s, p + 2);
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9': return match_back(m, s, p + 1);
    default: return match_item(m, s, p);
  }
}

/* Is what begins at `p` an item for one character, and no more? */
static bool is_single(matcher *m, const char *p, const char **after) {
  if (*p == '(' || *p == ')' || (*p == '$' && p + 1 == m->stop)) return false;
  if (*p == '%' && p + 1 < m->stop &&
      ((p[1] && strchr("bf", p[1])) || isdigit((unsigned char)p[1])))
    return false;
  *after = item_end(m, p);
  return *after == m->stop || !**after || !strchr("*+-?", **after);
}

/* A run of single characters takes no C stack. */
static const char *match_run(matcher *m, const char *s, const char **p) {
  const char *after;
  while (*p < m->stop && is_single(m, *p, &after)) {
    if (!match_one(m, s, *p, after)) return NULL;
    s++;
    *p = after;
  }
  return s;
}

/* Where what begins at `p` ends when it matches at `s`, or NULL. */
static const char *match_here(matcher *m, const char *s, const char *p) {
  if (m->depth == NESTING) luaL_error(m->L, "pattern too complex");
  m->depth++;
  s = match_run(m, s, &p);
  const char *found;
  if (!s || p == m->stop)
    found = s;
  else if (*p == '(' && p + 1 < m->stop && p[1] == ')')
    found = open_capture(m, s, p + 2, POSITION);
  else if (*p == '(')
    found = open_capture(m, s, p + 1, OPEN);
  else if (*p == ')')
    found = close_capture(m, s, p + 1);
  else if (*p == '$' && p + 1 == m->stop)
    found = s == m->end ? s : NULL;
  else if (*p == '%' && p + 1 < m->stop)
    found = match_special(m, s, p);
  else
    found = match_item(m, s, p);
  m->depth--;
  return found;
}

/* ---- captures --------------------------------------------------------------- */

static void push_capture(matcher *m, int index, const char *s, const char *e) {
  if (index >= m->count) {
    if (index > 0) luaL_error(m->L, "invalid capture index %%%d", index + 1);
    lua_pushlstring(m->L, s, (size_t)(e - s));
  } else if (m->captures[index].length == POSITION) {
    lua_pushinteger(m->L, m->captures[index].start - m->begin + 1);
  } else {
    if (m->captures[index].length == OPEN) luaL_error(m->L, "unfinished capture");
    lua_pushlstring(m->L, m->captures[index].start, (size_t)m->captures[index].length);
  }
}

/* All of them, or with `whole` and none the match. */
static int push_captures(matcher *m, const char *s, const char *e, bool whole) {
  int count = m->count == 0 && whole ? 1 : m->count;
  luaL_checkstack(m->L, count, "too many captures");
  for (int i = 0; i < count; i++) push_capture(m, i, s, e);
  return count;
}

static void begin(matcher *m, lua_State *L, const char *subject, size_t length, const char *pattern,
                  size_t pattern_length) {
  *m = (matcher){.L = L,
                 .begin = subject,
                 .end = subject + length,
                 .stop = pattern + pattern_length,
                 .steps = lua_tointeger(L, lua_upvalueindex(UP_STEPS))};
}

static const char *try_match(matcher *m, const char *s, const char *p) {
  m->count = m->depth = 0;
  step(m);
  return match_here(m, s, p);
}

/* ---- find and match --------------------------------------------------------- */

/* Position 1 … length + 1 of a string, from one that may count from its end. */
static size_t position(lua_Integer given, size_t length) {
  if (given > 0) return (size_t)given;
  if (given == 0 || given < -(lua_Integer)length) return 1;
  return length + (size_t)(given + 1);
}

static int find_plain(lua_State *L, const char *s, size_t length, const char *p, size_t wanted,
                      size_t from) {
  const char *found = wanted ? memmem(s + from, length - from, p, wanted) : s + from;
  if (!found) {
    luaL_pushfail(L);
    return 1;
  }
  lua_pushinteger(L, found - s + 1);
  lua_pushinteger(L, found - s + (ptrdiff_t)wanted);
  return 2;
}

static int find_or_match(lua_State *L, bool find) {
  size_t length, pattern_length;
  const char *s = luaL_checklstring(L, 1, &length), *p = luaL_checklstring(L, 2, &pattern_length);
  size_t from = position(luaL_optinteger(L, 3, 1), length) - 1;
  if (from > length) {
    luaL_pushfail(L);
    return 1;
  }
  if (find && (lua_toboolean(L, 4) || !strpbrk(p, "^$*+?.([%-")) && strlen(p) == pattern_length)
    return find_plain(L, s, length, p, pattern_length, from);
  if (find && lua_toboolean(L, 4)) return find_plain(L, s, length, p, pattern_length, from);
  matcher m;
  begin(&m, L, s, length, p, pattern_length);
  bool anchored = *p == '^';
  if (anchored) p++;
  for (const char *at = s + from; at <= m.end; at++) {
    const char *end = try_match(&m, at, p);
    if (end && !find) return push_captures(&m, at, end, true);
    if (end) {
      lua_pushinteger(L, at - s + 1);
      lua_pushinteger(L, end - s);
      return push_captures(&m, at, end, false) + 2;
    }
    if (anchored) break;
  }
  luaL_pushfail(L);
  return 1;
}

static int bounded_find(lua_State *L) {
  return find_or_match(L, true);
}

static int bounded_match(lua_State *L) {
  return find_or_match(L, false);
}

/* ---- gmatch ----------------------------------------------------------------- */

/* Upvalues of an iterator: the bounds, subject, pattern, next position, end of the last match. */
enum { UP_SUBJECT = 3, UP_PATTERN, UP_NEXT, UP_LAST };

static int gmatch_next(lua_State *L) {
  size_t length, pattern_length;
  const char *s = lua_tolstring(L, lua_upvalueindex(UP_SUBJECT), &length);
  const char *p = lua_tolstring(L, lua_upvalueindex(UP_PATTERN), &pattern_length);
  lua_Integer next = lua_tointeger(L, lua_upvalueindex(UP_NEXT));
  lua_Integer last = lua_tointeger(L, lua_upvalueindex(UP_LAST));
  matcher m;
  begin(&m, L, s, length, p, pattern_length);
  for (; next <= (lua_Integer)length; next++) {
    const char *end = try_match(&m, s + next, p);
    if (!end || end - s == last) continue;
    lua_pushinteger(L, end - s);
    lua_copy(L, -1, lua_upvalueindex(UP_NEXT));
    lua_replace(L, lua_upvalueindex(UP_LAST));
    return push_captures(&m, s + next, end, true);
  }
  return 0;
}

static int bounded_gmatch(lua_State *L) {
  size_t length;
  luaL_checklstring(L, 1, &length);
  luaL_checkstring(L, 2);
  size_t from = position(luaL_optinteger(L, 3, 1), length) - 1;
  lua_settop(L, 2);
  lua_pushvalue(L, lua_upvalueindex(UP_STEPS));
  lua_pushvalue(L, lua_upvalueindex(UP_BYTES));
  lua_rotate(L, 1, 2);
  lua_pushinteger(L, from > length ? (lua_Integer)length + 1 : (lua_Integer)from);
  lua_pushinteger(L, -1);
  lua_pushcclosure(L, gmatch_next, 6);
  return 1;
}

/* ---- gsub ------------------------------------------------------------------- */

/* The replacement text with its %0 … %9 filled in. */
static void add_text(matcher *m, luaL_Buffer *out, const char *s, const char *e) {
  size_t length;
  const char *text = lua_tolstring(m->L, 3, &length), *stop = text + length;
  for (; text < stop; text++) {
    if (*text != '%') {
      luaL_addchar(out, *text);
      continue;
    }
    text++;
    if (text < stop && *text == '%') {
      luaL_addchar(out, '%');
    } else if (text < stop && *text == '0') {
      luaL_addlstring(out, s, (size_t)(e - s));
    } else if (text < stop && isdigit((unsigned char)*text)) {
      push_capture(m, *text - '1', s, e);
      luaL_tolstring(m->L, -1, NULL);
      lua_remove(m->L, -2);
      luaL_addvalue(out);
    } else {
      luaL_error(m->L, "invalid use of '%%' in replacement string");
    }
  }
}

/* What a function or table gives for the match; false keeps it. True: something else came. */
static bool add_value(matcher *m, luaL_Buffer *out, const char *s, const char *e) {
  lua_State *L = m->L;
  int type = lua_type(L, 3);
  if (type == LUA_TSTRING || type == LUA_TNUMBER) {
    add_text(m, out, s, e);
    return true;
  }
  if (type == LUA_TFUNCTION) {
    lua_pushvalue(L, 3);
    lua_call(L, push_captures(m, s, e, true), 1);
  } else {
    push_capture(m, 0, s, e);
    lua_gettable(L, 3);
  }
  if (!lua_toboolean(L, -1)) {
    lua_pop(L, 1);
    luaL_addlstring(out, s, (size_t)(e - s));
    return false;
  }
  if (!lua_isstring(L, -1)) luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
  luaL_addvalue(out);
  return true;
}

static int bounded_gsub(lua_State *L) {
  size_t length, pattern_length;
  const char *s = luaL_checklstring(L, 1, &length), *p = luaL_checklstring(L, 2, &pattern_length);
  int type = lua_type(L, 3);
  luaL_argexpected(
      L, type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION || type == LUA_TTABLE,
      3, "string/function/table");
  lua_Integer most = luaL_optinteger(L, 4, (lua_Integer)length + 1), count = 0;
  lua_Integer bytes = lua_tointeger(L, lua_upvalueindex(UP_BYTES));
  matcher m;
  luaL_Buffer out;
  begin(&m, L, s, length, p, pattern_length);
  bool anchored = *p == '^', changed = false;
  if (anchored) p++;
  luaL_buffinit(L, &out);
  const char *last = NULL;
  while (count < most) {
    const char *end = try_match(&m, s, p);
    if (end && end != last) {
      count++;
      changed = add_value(&m, &out, s, end) || changed;
      s = last = end;
    } else if (s < m.end) {
      luaL_addchar(&out, *s++);
    } else {
      break;
    }
    if ((lua_Integer)luaL_bufflen(&out) > bytes)
      luaL_error(L, "gsub: the result is larger than %I bytes (a bound of this sandboxed node)",
                 bytes);
    if (anchored) break;
  }
  if (!changed) {
    lua_pushvalue(L, 1);
  } else {
    luaL_addlstring(&out, s, (size_t)(m.end - s));
    luaL_pushresult(&out);
  }
  lua_pushinteger(L, count);
  return 2;
}

/* ---- rep -------------------------------------------------------------------- */

static int bounded_rep(lua_State *L) {
  size_t length, between;
  const char *s = luaL_checklstring(L, 1, &length);
  lua_Integer count = luaL_checkinteger(L, 2);
  const char *separator = luaL_optlstring(L, 3, "", &between);
  lua_Integer bytes = lua_tointeger(L, lua_upvalueindex(UP_BYTES));
  size_t each = length + between;
  if (count > 0 && each > 0 && count > bytes / (lua_Integer)each + 1)
    return luaL_error(L, "rep: the result is larger than %I bytes (a bound of this sandboxed node)",
                      bytes);
  luaL_Buffer out;
  luaL_buffinit(L, &out);
  for (lua_Integer i = 0; i < count && each > 0; i++) {
    if (i > 0) luaL_addlstring(&out, separator, between);
    luaL_addlstring(&out, s, length);
  }
  luaL_pushresult(&out);
  return 1;
}

void patterns_push(lua_State *L, lua_Integer steps, lua_Integer bytes) {
  static const luaL_Reg functions[] = {{"find", bounded_find},     {"match", bounded_match},
                                       {"gmatch", bounded_gmatch}, {"gsub", bounded_gsub},
                                       {"rep", bounded_rep},       {NULL, NULL}};
  luaL_newlibtable(L, functions);
  lua_pushinteger(L, steps);
  lua_pushinteger(L, bytes);
  luaL_setfuncs(L, functions, 2);
}
