/* How deep a message nests, and whether it ends: see writer_deepen in codec_writer.h. */
#include "wire/codec_writer.h"

enum {
  FREE_DEPTH = 8,  /* tables down to here are not looked at for cycles on the way */
  FREE_LEVELS = 3, /* levels of Lua stack asked for at once */
  LEVEL_SLOTS = 6  /* Lua stack a level still takes while the next one is open */
};

static int least(int a, int b) {
  return a < b ? a : b;
}

/* Identities of the open levels that were opened without a look. */
static void identify(writer *w) {
  for (int i = 0; i < w->depth; i++)
    w->identity[i] = w->open[i] ? lua_topointer(w->L, w->open[i]) : NULL;
}

/* Is `identity` that of a level outside of `depth`? */
static bool is_open(const writer *w, int depth, const void *identity) {
  for (int i = 0; identity && i < depth; i++)
    if (w->identity[i] == identity) return true;
  return false;
}

static bool refuse_cycle(writer *w, int depth) {
  w->cycle = depth;
  return refusal_set(&w->refused, LP_INVALID_ARGUMENT, "cannot send a cyclic table");
}

bool writer_finds_cycle(writer *w) {
  identify(w);
  for (int i = 1; i < w->depth; i++)
    if (is_open(w, i, w->identity[i])) return !refuse_cycle(w, i);
  return false;
}

/* The table at `index` and those it is in, once that many are open that a cycle is likely. */
static bool is_cyclic(writer *w, int index) {
  if (w->depth <= FREE_DEPTH && writer_finds_cycle(w)) return true;
  const void *identity = w->identity[w->depth] = index ? lua_topointer(w->L, index) : NULL;
  return is_open(w, w->depth, identity) && !refuse_cycle(w, w->depth);
}

bool writer_look(writer *w, int index) {
  int depth = w->depth, free_depth = least(FREE_DEPTH, w->depth_max);
  if (depth >= free_depth && is_cyclic(w, index)) return false;
  if (depth >= w->depth_max)
    return refusal_set(&w->refused, LP_RESOURCE_EXHAUSTED, "nested deeper than %d", w->depth_max);
  w->unwatched = least(free_depth, depth + FREE_LEVELS);
  int levels = depth < free_depth ? w->unwatched : 0;
  if (!lua_checkstack(w->L, levels * LEVEL_SLOTS + WRITER_SLOTS))
    return refusal_message(&w->refused, "the Lua stack is full");
  return true;
}

/* A cycle is reported where it closed, not where it was seen: what was said about the way
 * from there on is forgotten. */
bool writer_leave_refused(writer *w) {
  if (w->depth == w->cycle) refusal_forget_path(&w->refused);
  return false;
}
