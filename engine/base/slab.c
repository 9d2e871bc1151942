/* See slab.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/slab.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/adopted.h"
#include "base/memory.h"

/* The address sanitizer should see every block. Compilers have two ways of telling that it is on.
 */
#ifdef __SANITIZE_ADDRESS__
#define EVERY_BLOCK_BY_ITSELF 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define EVERY_BLOCK_BY_ITSELF 1
#endif
#endif
#ifndef EVERY_BLOCK_BY_ITSELF
#define EVERY_BLOCK_BY_ITSELF 0
#endif

enum { SLAB_BYTES = 1 << 10, CHUNK_BYTES = 64 << 10, CHUNK_SLABS = CHUNK_BYTES / SLAB_BYTES - 1 };
enum { LARGEST = 128, STEP = 8 };

typedef struct chunk chunk;

/* Head of a slab, whose blocks follow. Places are offsets from its beginning. */
typedef struct slab {
  list link;      /* slabs->partial, or in no list: full */
  uint16_t free;  /* the first block that was given back, 0: none; it holds the next one */
  uint16_t fresh; /* from here on no block was ever given out */
  uint16_t size;  /* of its blocks */
  uint16_t used;  /* blocks given out */
} slab;

/* Head of a chunk, in the place of its first slab. */
struct chunk {
  list link; /* slabs->chunks, or in no list: no slab is free */
  slab *free;
  unsigned fresh, used; /* slabs */
};

/* The size of a block's class. */
static inline size_t class_size(size_t bytes) {
  return bytes <= 64 ? (bytes + 7) & ~(size_t)7 : (bytes + 15) & ~(size_t)15;
}

static inline unsigned class_of(size_t size) {
  return (unsigned)(size / STEP) - 1;
}

static inline slab *slab_of(void *block) {
  return (slab *)((uintptr_t)block & ~(uintptr_t)(SLAB_BYTES - 1));
}

static inline chunk *chunk_of(slab *slab) {
  return (chunk *)((uintptr_t)slab & ~(uintptr_t)(CHUNK_BYTES - 1));
}

/* ---- chunks ----------------------------------------------------------------- */

static void *map(void *place, size_t bytes) {
  void *got = mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return got == MAP_FAILED ? NULL : got;
}

/* A mapping that begins at a multiple of its size; most often beside the last one. */
static chunk *chunk_map(slabs *slabs) {
  char *got = map(slabs->next_place, CHUNK_BYTES);
  if (got && (uintptr_t)got % CHUNK_BYTES) {
    munmap(got, CHUNK_BYTES);
    got = map(NULL, 2 * CHUNK_BYTES);
    if (!got) return NULL;
    size_t before = CHUNK_BYTES - (uintptr_t)got % CHUNK_BYTES;
    munmap(got, before);
    got += before;
    if (before < CHUNK_BYTES) munmap(got + CHUNK_BYTES, CHUNK_BYTES - before);
  }
  if (got) slabs->next_place = got - CHUNK_BYTES;
  return (chunk *)(void *)got;
}

static chunk *chunk_get(slabs *slabs) {
  if (!list_empty(&slabs->chunks)) return list_entry(slabs->chunks.next, chunk, link);
  chunk *made = slabs->spare ? slabs->spare : chunk_map(slabs);
  slabs->spare = NULL;
  if (!made) return NULL;
  *made = (chunk){.fresh = 1};
  list_push(&slabs->chunks, &made->link);
  return made;
}

static void chunk_release(slabs *slabs, chunk *empty) {
  list_remove(&empty->link);
  if (slabs->spare) munmap(empty, CHUNK_BYTES);
  if (!slabs->spare) slabs->spare = empty;
}

/* ---- slabs ------------------------------------------------------------------ */

static slab *slab_new(slabs *slabs, size_t size) {
  chunk *home = chunk_get(slabs);
  if (!home) return NULL;
  slab *made = home->free;
  if (made)
    home->free = (slab *)(void *)made->link.next;
  else
    made = (slab *)(void *)((char *)home + (size_t)home->fresh++ * SLAB_BYTES);
  if (++home->used == CHUNK_SLABS) list_remove(&home->link);
  uint16_t first = (uint16_t)((sizeof *made + 15) & ~(size_t)15);
  *made = (slab){.fresh = first, .size = (uint16_t)size};
  list_push_front(&slabs->partial[class_of(size)], &made->link);
  return made;
}

static void slab_release(slabs *slabs, slab *empty) {
  chunk *home = chunk_of(empty);
  list_remove(&empty->link);
  empty->link.next = (list *)(void *)home->free;
  home->free = empty;
  if (home->used == CHUNK_SLABS) list_push(&slabs->chunks, &home->link);
  if (--home->used == 0) chunk_release(slabs, home);
}

static inline bool is_full(const slab *slab) {
  return !slab->free && slab->fresh + slab->size > SLAB_BYTES;
}

static void *take(slabs *slabs, size_t size) {
  list *partial = &slabs->partial[class_of(size)];
  slab *from = list_empty(partial) ? slab_new(slabs, size) : list_entry(partial->next, slab, link);
  if (!from) return NULL;
  char *block = (char *)from + (from->free ? from->free : from->fresh);
  if (from->free)
    memcpy(&from->free, block, sizeof from->free);
  else
    from->fresh = (uint16_t)(from->fresh + size);
  from->used++;
  if (is_full(from)) list_remove(&from->link);
  return block;
}

static void give(slabs *slabs, void *block) {
  slab *home = slab_of(block);
  bool was_full = is_full(home);
  memcpy(block, &home->free, sizeof home->free);
  home->free = (uint16_t)((char *)block - (char *)home);
  if (was_full) list_push_front(&slabs->partial[class_of(home->size)], &home->link);
  if (--home->used == 0) slab_release(slabs, home);
}

/* ---- large blocks ------------------------------------------------------------- */

void slabs_offer(slabs *slabs, void *base, void *block, size_t bytes) {
  if (!adopted_is(block, bytes)) return;
  slabs->offered = block;
  slabs->offered_base = base;
  slabs->offered_bytes = bytes;
}

bool slabs_offer_end(slabs *slabs) {
  bool taken = slabs->offered_bytes && !slabs->offered;
  slabs->offered = NULL;
  slabs->offered_bytes = 0;
  return taken;
}

static void *make_large(slabs *slabs, size_t bytes) {
  void *block = slabs->offered;
  if (!block || bytes != slabs->offered_bytes) return mem_realloc_lua(NULL, bytes);
  adopted_set_base(block, slabs->offered_base);
  slabs->offered = NULL;
  return block;
}

static void drop_large(void *block, size_t bytes) {
  mem_free(adopted_is(block, bytes) ? adopted_base(block) : block);
}

static void *resize_large(void *block, size_t old_bytes, size_t bytes) {
  if (!adopted_is(block, old_bytes)) return mem_realloc_lua(block, bytes);
  void *moved = mem_realloc_lua(NULL, bytes);
  if (!moved) return NULL;
  memcpy(moved, block, old_bytes < bytes ? old_bytes : bytes);
  drop_large(block, old_bytes);
  return moved;
}

/* ---- blocks ----------------------------------------------------------------- */

void slabs_init(slabs *slabs) {
  *slabs = (struct slabs){0};
  for (int i = 0; i < SLAB_CLASSES; i++) list_init(&slabs->partial[i]);
  list_init(&slabs->chunks);
}

void slabs_fini(slabs *slabs) {
  if (slabs->spare) munmap(slabs->spare, CHUNK_BYTES);
  slabs->spare = NULL;
}

static void *make(slabs *slabs, size_t bytes) {
  if (bytes > LARGEST) return make_large(slabs, bytes);
  return mem_refuses_lua() ? NULL : take(slabs, class_size(bytes));
}

static void drop(slabs *slabs, void *block, size_t bytes) {
  if (bytes <= LARGEST)
    give(slabs, block);
  else
    drop_large(block, bytes);
}

/* From one kind or class to another. */
static void *move(slabs *slabs, void *block, size_t old_bytes, size_t bytes) {
  void *moved = make(slabs, bytes);
  if (!moved) return NULL;
  memcpy(moved, block, old_bytes < bytes ? old_bytes : bytes);
  drop(slabs, block, old_bytes);
  return moved;
}

void *slabs_resize(slabs *slabs, void *block, size_t old_bytes, size_t bytes) {
  if (EVERY_BLOCK_BY_ITSELF) {
    if (bytes) return block ? resize_large(block, old_bytes, bytes) : make_large(slabs, bytes);
    if (block) drop_large(block, old_bytes);
    return NULL;
  }
  if (!bytes) {
    if (block) drop(slabs, block, old_bytes);
    return NULL;
  }
  if (!block) return make(slabs, bytes);
  if (old_bytes > LARGEST && bytes > LARGEST) return resize_large(block, old_bytes, bytes);
  if (old_bytes <= LARGEST && bytes <= LARGEST && class_size(old_bytes) == class_size(bytes))
    return block;
  return move(slabs, block, old_bytes, bytes);
}
