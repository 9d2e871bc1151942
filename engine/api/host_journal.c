/* What the program has printed lately, for the policy; see host_parts.h and process/journal.h. */
#include <string.h>

#include "api/host_parts.h"

/* Which lines: from number `since` on, of the node `name` unless NULL. */
typedef struct wanted {
  uint64_t since;
  const char *name;
  size_t name_length;
} wanted;

static bool next_wanted(const journal *journal, const wanted *wanted, size_t *at,
                        journal_line *out) {
  while (journal_next(journal, at, out)) {
    if (out->number < wanted->since) continue;
    if (!wanted->name) return true;
    if (out->name_length == wanted->name_length &&
        memcmp(out->name, wanted->name, wanted->name_length) == 0)
      return true;
  }
  return false;
}

static void push_line(lua_State *L, const journal_line *line) {
  lua_createtable(L, 0, 4);
  lua_pushnumber(L, line->time);
  lua_setfield(L, -2, "time");
  lua_pushinteger(L, line->stream);
  lua_setfield(L, -2, "stream");
  lua_pushlstring(L, line->name, line->name_length);
  lua_setfield(L, -2, "node");
  lua_pushlstring(L, line->text, line->text_length);
  lua_setfield(L, -2, "text");
}

/* journal(since, name or nil, most) -> lines {time=, stream=, node=, text=}, number of the next */
static int host_journal(lua_State *L) {
  const journal *journal = printer_journal(host_of(L)->printer);
  wanted wanted = {.since = (uint64_t)luaL_checkinteger(L, 1)};
  wanted.name = luaL_optlstring(L, 2, NULL, &wanted.name_length);
  lua_Integer most = luaL_checkinteger(L, 3), count = 0, made = 0;
  journal_line line;
  lua_newtable(L);
  for (size_t at = journal->first; next_wanted(journal, &wanted, &at, &line);) count++;
  for (size_t at = journal->first; next_wanted(journal, &wanted, &at, &line);) {
    if (count-- > most) continue;
    push_line(L, &line);
    lua_rawseti(L, -2, ++made);
  }
  lua_pushinteger(L, (lua_Integer)journal->count);
  return 2;
}

const luaL_Reg host_journal_functions[] = {{"journal", host_journal}, {NULL, NULL}};
