/* Writing instances of registered classes and userdata; see codec_writer.h. */
#include "wire/codec_class.h"
#include "wire/codec_writer.h"
#include "wire/token.h"

enum { EXT_HEAD = 3 /* of an extension below 256 bytes */ };

/* EXT_HEAD bytes were reserved at `start`. */
static bool close_object(writer *w, size_t start) {
  size_t length = writer_offset(w) - start - EXT_HEAD + writer_left_out(w, start);
  size_t more = length <= UINT8_MAX ? 0 : length <= UINT16_MAX ? 1 : 3;
  if (more && !writer_shift(w, start + EXT_HEAD, more)) return false;
  uint8_t *head = w->out->data + start;
  if (!more)
    head = token_put_8(head, 0xc7, (unsigned)length);
  else if (more == 1)
    head = token_put_16(head, 0xc8, (unsigned)length);
  else
    head = token_put_32(head, 0xc9, (uint32_t)length);
  *head = CODEC_EXT_OBJECT;
  return true;
}

/* Calls `pack` for the instance and leaves its results; their number, or -1. The call
 * may run anything, so `out` is handed over complete and taken back with suspicion. */
static int call_pack(writer *w, int index) {
  lua_State *L = w->L;
  if (!writer_keeps_all(w)) return -1;
  int top = lua_gettop(L) - 1;
  size_t length = w->out->length = writer_offset(w);
  lua_pushvalue(L, index);
  if (lua_pcall(L, 1, LUA_MULTRET, 0) != LUA_OK) {
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    refusal_set(&w->refused, LP_INVALID_ARGUMENT, "the pack function of its class failed: %.150s",
                text ? text : lua_typename(L, lua_type(L, -1)));
    return -1;
  }
  if (w->out->length != length) {
    refusal_set(&w->refused, LP_FAILED_PRECONDITION,
                "the pack function of its class sent something itself");
    return -1;
  }
  writer_reload(w, length);
  w->unwatched = 0; /* its results took of the Lua stack */
  int count = lua_gettop(L) - top;
  if (count <= w->rules->limits.values && lua_checkstack(L, WRITER_SLOTS)) return count;
  refusal_set(&w->refused, LP_RESOURCE_EXHAUSTED,
              "the pack function of its class returned too many values");
  return -1;
}

/* The values of an instance whose `pack` is on top of the stack. */
static bool write_packed(writer *w, int index) {
  int first = lua_gettop(w->L);
  int count = call_pack(w, index);
  if (count < 0 || !write_array_head(w, (lua_Unsigned)count)) return false;
  for (int i = 0; i < count; i++)
    if (!write_value(w, first + i)) return refusal_within_index(&w->refused, i + 1);
  return true;
}

/* The raw fields of an instance, as the one value of its class. The reader meets them
 * as a table in a table, so they count as one here too. */
static bool write_instance_fields(writer *w, int index) {
  if (lua_type(w->L, index) != LUA_TTABLE)
    return refusal_set(&w->refused, LP_INVALID_ARGUMENT,
                       "cannot send a userdata of a class without pack");
  if (!write_array_head(w, 1) || !writer_deepen(w, 0)) return false;
  return writer_leave(w, write_fields(w, index, lua_gettop(w->L)));
}

/* The record of the instance's class is on top of the stack. */
bool write_object(writer *w, int index) {
  lua_State *L = w->L;
  int record = lua_gettop(L);
  size_t start = writer_offset(w);
  if (!writer_room(w, EXT_HEAD)) return false;
  w->at += EXT_HEAD;
  lua_rawgeti(L, record, CLASS_NAME);
  if (!write_string(w, record + 1)) return false;
  bool packs = lua_rawgeti(L, record, CLASS_PACK) == LUA_TFUNCTION;
  if (!(packs ? write_packed(w, index) : write_instance_fields(w, index))) return false;
  return close_object(w, start);
}

/* Lets the engine write its own kinds; it appends to `out` itself. */
static bool write_foreign(writer *w, int index) {
  if (!writer_keeps_all(w)) return false;
  size_t length = w->out->length = writer_offset(w);
  bool written = w->rules->hooks.write_userdata(w->L, index, w->out);
  if (!written) w->out->length = length;
  length = w->out->length;
  if (length > w->ceiling) return writer_too_large(w, length - w->start);
  writer_reload(w, length);
  return written || refusal_type(&w->refused, w->L, index);
}

/* The record of its class is on top of the stack. */
static bool write_class_userdata(writer *w, int index) {
  return writer_deepen(w, index) && writer_leave(w, write_object(w, index));
}

bool write_userdata(writer *w, int index) {
  int top = lua_gettop(w->L);
  bool written;
  if (!lua_checkstack(w->L, WRITER_SLOTS))
    return refusal_message(&w->refused, "the Lua stack is full");
  if (w->rules->plain) return refusal_type(&w->refused, w->L, index);
  if (lua_getmetatable(w->L, index) && class_push_of(w->L))
    written = write_class_userdata(w, index);
  else
    written = w->rules->hooks.write_userdata ? write_foreign(w, index)
                                             : refusal_type(&w->refused, w->L, index);
  if (written) lua_settop(w->L, top);
  return written;
}
