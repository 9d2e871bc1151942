/* See memory.h. */
#include "base/memory.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LP_FAULTS
/* Requests left until the one that fails; negative: the switch is off. */
static atomic_long fault_countdown = -2;

static int fault_due(void) {
  long left = atomic_load_explicit(&fault_countdown, memory_order_relaxed);
  if (left == -2) {
    const char *wanted = getenv("LP_FAULT_ALLOC");
    long expected = -2;
    atomic_compare_exchange_strong(&fault_countdown, &expected, wanted ? atol(wanted) : -1);
    left = atomic_load(&fault_countdown);
  }
  if (left < 0) return 0;
  return atomic_fetch_sub(&fault_countdown, 1) == 1;
}
#else
static int fault_due(void) {
  return 0;
}
#endif

void *mem_alloc(size_t bytes) {
  return fault_due() ? NULL : malloc(bytes);
}

void *mem_new(size_t bytes) {
  return fault_due() ? NULL : calloc(1, bytes);
}

void *mem_realloc(void *block, size_t bytes) {
  return fault_due() ? NULL : realloc(block, bytes);
}

void mem_free(void *block) {
  free(block);
}

char *mem_strdup(const char *text) {
  if (!text) return NULL;
  size_t bytes = strlen(text) + 1;
  char *copy = mem_alloc(bytes);
  if (copy) memcpy(copy, text, bytes);
  return copy;
}

char *mem_format(const char *format, ...) {
  va_list args;
  va_start(args, format);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (length < 0) return NULL;
  char *text = mem_alloc((size_t)length + 1);
  if (!text) return NULL;
  va_start(args, format);
  vsnprintf(text, (size_t)length + 1, format, args);
  va_end(args);
  return text;
}
