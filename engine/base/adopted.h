/* Memory that becomes a block of Lua's with a string in it.
 *
 * lua_pushlstring asks for a block, for a head and the string, and copies the string behind the
 * head. What is large and came over a socket was read for nothing but that, so it is read to
 * where it is to stay: then the place around it is what the allocator gives, and a copy from a
 * place to itself is nothing. (No more is asked of memcpy than compilers do when they assign a
 * structure to itself.)
 *
 * Such a block lies within memory of malloc's. Where that begins stands before the block, which is
 * known by its address: no block of malloc's has one like it. */
#ifndef LP_BASE_ADOPTED_H
#define LP_BASE_ADOPTED_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
  ADOPTED_HEAD = 24,   /* before the bytes of a long string in Lua 5.4. With another one none is
                          asked for that is as large as the block that is offered */
  ADOPTED_BEFORE = 32, /* the head and the place for where the memory begins */
  ADOPTED_STEP = 16,   /* the string begins at a multiple, as blocks of malloc's do */
  ADOPTED_LEAST = 64 * 1024 /* smaller strings are copied */
};

static inline bool adopted_is(const void *block, size_t bytes) {
  return alignof(max_align_t) >= ADOPTED_STEP && bytes >= ADOPTED_LEAST &&
         (uintptr_t)block % ADOPTED_STEP == ADOPTED_STEP - ADOPTED_HEAD % ADOPTED_STEP;
}

static inline void *adopted_base(const void *block) {
  void *base;
  memcpy(&base, (const char *)block - sizeof base, sizeof base);
  return base;
}

static inline void adopted_set_base(void *block, void *base) {
  memcpy((char *)block - sizeof base, &base, sizeof base);
}

#endif
