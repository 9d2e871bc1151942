/* Counts what malloc hands out, to the engine and to Lua alike: the linker sends every call of a
 * fuzz program here (--wrap). One thread only. */
#include <malloc.h>
#include <stdlib.h>

#include "fuzz.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void __real_free(void *block);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
void __wrap_free(void *block);

static size_t in_use, peak;

static void *taken(void *block) {
  if (block) in_use += malloc_usable_size(block);
  if (in_use > peak) peak = in_use;
  return block;
}

/* What came from elsewhere (a library's own strdup) is freed here, too, and was not counted. */
static void given(size_t bytes) {
  in_use -= bytes < in_use ? bytes : in_use;
}

void *__wrap_malloc(size_t bytes) {
  return taken(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes) {
  return taken(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *block, size_t bytes) {
  size_t before = block ? malloc_usable_size(block) : 0;
  void *moved = __real_realloc(block, bytes);
  if (!moved && bytes) return NULL;
  given(before);
  return taken(moved);
}

void __wrap_free(void *block) {
  if (block) given(malloc_usable_size(block));
  __real_free(block);
}

size_t fuzz_memory_mark(void) {
  peak = in_use;
  return in_use;
}

size_t fuzz_memory_peak(void) {
  return peak;
}

size_t fuzz_memory_now(void) {
  return in_use;
}
