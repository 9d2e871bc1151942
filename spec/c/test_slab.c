/* Slabs: blocks of every size keep what is in them, lie apart, and all memory goes back. */
#include "base/slab.h"

#include "base/adopted.h"
#include "base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

enum { MANY = 20000 };

typedef struct block {
  uint8_t *at;
  size_t bytes;
  uint8_t fill;
} block;

static block blocks[MANY];
static uint64_t seed = 88172645463325252u;

static unsigned chance(unsigned below) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return (unsigned)(seed >> 33) % below;
}

static bool is_whole(const block *b) {
  for (size_t i = 0; i < b->bytes; i++)
    if (b->at[i] != b->fill) return false;
  return true;
}

static void resize(slabs *slabs, block *b, size_t bytes) {
  size_t kept = b->bytes < bytes ? b->bytes : bytes;
  CHECK(is_whole(b));
  b->at = slabs_resize(slabs, b->at, b->bytes, bytes);
  CHECK(!bytes == !b->at && (uintptr_t)b->at % 8 == 0);
  b->bytes = kept;
  CHECK(is_whole(b));
  b->bytes = bytes;
  b->fill = (uint8_t)chance(256);
  if (bytes) memset(b->at, b->fill, bytes);
}

static size_t some_size(void) {
  return chance(10) ? 1 + chance(140) : chance(3000);
}

static void test_blocks_keep_what_is_in_them(void) {
  slabs slabs;
  slabs_init(&slabs);
  memset(blocks, 0, sizeof blocks);
  for (int i = 0; i < 10 * MANY; i++) resize(&slabs, &blocks[chance(MANY)], some_size());
  for (int i = 0; i < MANY; i++) resize(&slabs, &blocks[i], 0);
  CHECK(list_empty(&slabs.chunks)); /* at most a spare one is left */
  for (int i = 0; i < SLAB_CLASSES; i++) CHECK(list_empty(&slabs.partial[i]));
  slabs_fini(&slabs);
}

static void test_every_size_up_and_down(void) {
  slabs slabs;
  slabs_init(&slabs);
  block one = {0};
  for (size_t bytes = 1; bytes <= 300; bytes++) resize(&slabs, &one, bytes);
  for (size_t bytes = 300; bytes-- > 0;) resize(&slabs, &one, bytes);
  CHECK(list_empty(&slabs.chunks));
  slabs_fini(&slabs);
}

/* Without the room that a header of each block takes. */
static void test_small_blocks_lie_close(void) {
  slabs slabs;
  slabs_init(&slabs);
  static void *made[MANY];
  for (int i = 0; i < MANY; i++) made[i] = slabs_resize(&slabs, NULL, 0, 32);
#ifndef __SANITIZE_ADDRESS__
  size_t chunks = 1; /* they are filled one after the other */
  for (int i = 1; i < MANY; i++) chunks += (uintptr_t)made[i] >> 16 != (uintptr_t)made[i - 1] >> 16;
  CHECK(chunks * 65536 < MANY * 36 + 2 * 65536);
#endif
  for (int i = 0; i < MANY; i++) slabs_resize(&slabs, made[i], 32, 0);
  slabs_fini(&slabs);
}

enum { ADOPTED = ADOPTED_LEAST + 17 };

/* A place for a block of ADOPTED bytes in memory of its own at `base`. */
static uint8_t *offer(slabs *slabs, uint8_t **base) {
  *base = mem_alloc(ADOPTED_BEFORE + ADOPTED);
  uint8_t *place = *base + ADOPTED_BEFORE - ADOPTED_HEAD;
  memset(place, 'a', ADOPTED);
  slabs_offer(slabs, *base, place, ADOPTED);
  return place;
}

static void test_memory_offered_becomes_a_block(void) {
  slabs slabs;
  uint8_t *base;
  slabs_init(&slabs);
  uint8_t *place = offer(&slabs, &base);
  block other = {0}, one = {0};
  resize(&slabs, &other, ADOPTED - 1);
  one.at = slabs_resize(&slabs, NULL, 0, ADOPTED);
  CHECK(one.at == place && slabs_offer_end(&slabs) && !slabs_offer_end(&slabs));
  one.bytes = ADOPTED;
  one.fill = 'a';
  CHECK(is_whole(&one));
  resize(&slabs, &other, ADOPTED); /* the offer is over */
  CHECK(other.at != place);
  resize(&slabs, &other, 0);
  resize(&slabs, &one, 0); /* frees all of it */
  slabs_fini(&slabs);
}

static void test_a_block_that_was_adopted_can_be_resized(void) {
  static const size_t sizes[] = {ADOPTED + 1, 2 * ADOPTED, ADOPTED - 1, 100, 1};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    slabs slabs;
    uint8_t *base;
    slabs_init(&slabs);
    offer(&slabs, &base);
    block one = {slabs_resize(&slabs, NULL, 0, ADOPTED), ADOPTED, 'a'};
    CHECK(slabs_offer_end(&slabs));
    resize(&slabs, &one, sizes[i]);
    resize(&slabs, &one, 0);
    slabs_fini(&slabs);
  }
}

static void test_an_offer_that_is_not_taken_stays_the_owners(void) {
  slabs slabs;
  uint8_t *base;
  slabs_init(&slabs);
  offer(&slabs, &base);
  CHECK(!slabs_offer_end(&slabs));
  block one = {0};
  resize(&slabs, &one, ADOPTED);
  CHECK(!slabs_offer_end(&slabs));
  resize(&slabs, &one, 0);
  mem_free(base);
  slabs_fini(&slabs);
}

int main(void) {
  RUN(test_blocks_keep_what_is_in_them);
  RUN(test_every_size_up_and_down);
  RUN(test_small_blocks_lie_close);
  RUN(test_memory_offered_becomes_a_block);
  RUN(test_a_block_that_was_adopted_can_be_resized);
  RUN(test_an_offer_that_is_not_taken_stays_the_owners);
  return TEST_END();
}
