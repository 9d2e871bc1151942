/* See codec_refusal.h. */
#include "wire/codec_refusal.h"

#include <lauxlib.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "wire/codec_class.h"
#include "wire/text.h"

void refusal_forget_path(refusal *r) {
  r->path_cut = false;
  r->path_begin = REFUSAL_PATH;
  r->path[REFUSAL_PATH] = 0;
}

void refusal_init(refusal *r) {
  r->pathless = false;
  refusal_forget_path(r);
}

bool refusal_set(refusal *r, lp_status status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  r->status = status;
  vsnprintf(r->reason, sizeof r->reason, format, args);
  va_end(args);
  return false;
}

bool refusal_message(refusal *r, const char *format, ...) {
  va_list args;
  va_start(args, format);
  r->status = LP_RESOURCE_EXHAUSTED;
  r->pathless = true;
  vsnprintf(r->reason, sizeof r->reason, format, args);
  va_end(args);
  return false;
}

bool refusal_type(refusal *r, lua_State *L, int index) {
  int type = lua_type(L, index);
  const char *kind = type == LUA_TTHREAD          ? "coroutine"
                     : type == LUA_TLIGHTUSERDATA ? "light userdata"
                                                  : lua_typename(L, type);
  const char *name = type == LUA_TUSERDATA ? class_type_name(L, index) : NULL;
  if (!name) return refusal_set(r, LP_INVALID_ARGUMENT, "cannot send a %s", kind);
  return refusal_set(r, LP_INVALID_ARGUMENT, "cannot send a %s (%.100s)", kind, name);
}

/* Puts `part` before the path. */
bool refusal_within(refusal *r, const char *part) {
  static const char cut[] = "…";
  size_t length = strlen(part);
  if (r->pathless || r->path_cut) return false;
  r->path_cut = length + sizeof cut > r->path_begin;
  if (r->path_cut) {
    part = cut;
    length = sizeof cut - 1;
  }
  r->path_begin -= length;
  memcpy(r->path + r->path_begin, part, length);
  return false;
}

bool refusal_within_index(refusal *r, lua_Integer index) {
  char part[32];
  snprintf(part, sizeof part, "[%lld]", (long long)index);
  return refusal_within(r, part);
}

static bool within_string(refusal *r, const char *key, size_t length) {
  char quoted[TEXT_QUOTED], part[TEXT_QUOTED + 2];
  if (text_is_name(key, length))
    snprintf(part, sizeof part, ".%.*s", (int)length, key);
  else
    snprintf(part, sizeof part, "[%s]", text_quote(quoted, key, length));
  return refusal_within(r, part);
}

static bool within_number(refusal *r, lua_State *L, int index) {
  char part[32];
  if (lua_isinteger(L, index)) return refusal_within_index(r, lua_tointeger(L, index));
  snprintf(part, sizeof part, "[%.14g]", lua_tonumber(L, index));
  return refusal_within(r, part);
}

bool refusal_within_key(refusal *r, lua_State *L, int index) {
  char part[32];
  size_t length;
  const char *text;
  switch (lua_type(L, index)) {
    case LUA_TSTRING:
      text = lua_tolstring(L, index, &length);
      return within_string(r, text, length);
    case LUA_TNUMBER: return within_number(r, L, index);
    case LUA_TBOOLEAN: return refusal_within(r, lua_toboolean(L, index) ? "[true]" : "[false]");
    default:
      snprintf(part, sizeof part, "[%s]", luaL_typename(L, index));
      return refusal_within(r, part);
  }
}

lp_status refusal_report(const refusal *r, const char *place, fault *why) {
  if (r->pathless) return fault_set(why, r->status, "%s", r->reason);
  const char *path = r->path + r->path_begin;
  return fault_set(why, r->status, "%s: %s%s%s", place, path, *path ? ": " : "", r->reason);
}
