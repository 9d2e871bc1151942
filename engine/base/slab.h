/* Small blocks of memory for one thread: what interpreters are made of.
 *
 * A block has no header, since Lua says how large it was when it gives one back; half of a
 * node's objects are so small that malloc's would take a third of them. Blocks of like size
 * share a slab of 1 KiB, slabs a chunk of 64 KiB that is returned to the system when all of
 * it is free. Larger blocks are malloc's. Used by one thread at a time. */
#ifndef LP_BASE_SLAB_H
#define LP_BASE_SLAB_H

#include <stddef.h>

#include "base/list.h"

enum { SLAB_CLASSES = 16 };

typedef struct slabs {
  list partial[SLAB_CLASSES]; /* slabs with a free block, by class */
  list chunks;                /* with a free slab */
  struct chunk *spare;        /* one that is free as a whole is kept */
  void *next_place;           /* where the next chunk would lie well */
  size_t offered_bytes;
  void *offered, *offered_base; /* see slabs_offer; or NULL */
} slabs;

void slabs_init(slabs *slabs);
/* All blocks have been given back. */
void slabs_fini(slabs *slabs);

/* As lua_Alloc: makes, resizes or with `bytes` 0 frees a block of `old_bytes` (0: none). NULL
 * when there is no memory; the block is then as it was. That may be so when it is to shrink,
 * too, and whoever gives it back has to know its size. */
void *slabs_resize(slabs *slabs, void *block, size_t old_bytes, size_t bytes);

/* A block of exactly `bytes` is about to be asked for, and `block`, a place within the memory of
 * mem_alloc's at `base`, is to be the one (adopted.h). Ends with slabs_offer_end; true: it was,
 * and the memory is the block's. */
void slabs_offer(slabs *slabs, void *base, void *block, size_t bytes);
bool slabs_offer_end(slabs *slabs);

#endif
