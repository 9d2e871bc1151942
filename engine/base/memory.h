/* The engine's allocator: malloc, with a switch that makes requests fail.
 *
 * Everything the engine and its interpreters own is asked for here, so that a spec can run a
 * program once for every n and see an error each time and never a crash. In builds with
 * LP_FAULTS, LP_FAULT_ALLOC=n has the n-th request fail (interpreters' not counted: they ask
 * again), LP_FAULT_ALLOC=n+ the n-th and all behind it; for requests that fail at random see
 * fault_point.h. A NULL answer is always possible. */
#ifndef LP_BASE_MEMORY_H
#define LP_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

void *mem_alloc(size_t bytes);
/* Zero-filled. */
void *mem_new(size_t bytes);
/* As realloc; on failure the old block stays valid. */
void *mem_realloc(void *block, size_t bytes);
/* The same for an interpreter, which asks a second time after a collection. */
void *mem_realloc_lua(void *block, size_t bytes);
/* Is a request of an interpreter that is met without malloc to fail? */
#ifdef LP_FAULTS
bool mem_refuses_lua(void);
#else
static inline bool mem_refuses_lua(void) {
  return false;
}
#endif
/* Accepts NULL. */
void mem_free(void *block);
/* A copy the caller frees with mem_free; NULL when `text` is NULL or memory is out. */
char *mem_strdup(const char *text);
/* printf into a fresh string the caller frees with mem_free. */
char *mem_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
