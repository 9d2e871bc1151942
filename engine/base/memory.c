/* See memory.h. */
#include "base/memory.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault_point.h"

#ifdef LP_FAULTS
/* The switch: the number of the request that fails (0: none, they are only counted) and
 * whether all behind it fail too. */
static struct {
  atomic_int read; /* 0: not yet, 1: there is none, 2: there is one */
  atomic_long at, count;
  atomic_bool stays;
} faults;

static int faults_read(void) {
  const char *wanted = getenv("LP_FAULT_ALLOC");
  if (wanted) {
    char *rest;
    atomic_store(&faults.at, strtol(wanted, &rest, 10));
    atomic_store(&faults.stays, *rest == '+');
  }
  atomic_store(&faults.read, wanted ? 2 : 1);
  return wanted ? 2 : 1;
}

/* An interpreter tries again after a collection, so that single faults pass it by. */
static bool counted_fault(bool tries_again) {
  int read = atomic_load_explicit(&faults.read, memory_order_relaxed);
  if ((read ? read : faults_read()) == 1) return false;
  bool stays = atomic_load(&faults.stays);
  if (tries_again && !stays) return false;
  long number = atomic_fetch_add(&faults.count, 1) + 1, at = atomic_load(&faults.at);
  return at > 0 && (number == at || (stays && number > at));
}

static bool fault_due(bool tries_again) {
  return counted_fault(tries_again) ||
         fault_point_pass(tries_again ? FAULT_MEMORY_LUA : FAULT_MEMORY) == INJECT_FAIL;
}

/* LP_FAULT_ALLOC=0 or 0+ tells how many requests there are to try. */
__attribute__((destructor)) static void faults_tell(void) {
  if (atomic_load(&faults.read) == 2 && atomic_load(&faults.at) == 0)
    fprintf(stderr, "%ld requests for memory\n", atomic_load(&faults.count));
}
#else
static bool fault_due(bool tries_again) {
  (void)tries_again;
  return false;
}
#endif

void *mem_alloc(size_t bytes) {
  return fault_due(false) ? NULL : malloc(bytes);
}

void *mem_new(size_t bytes) {
  return fault_due(false) ? NULL : calloc(1, bytes);
}

void *mem_realloc(void *block, size_t bytes) {
  return fault_due(false) ? NULL : realloc(block, bytes);
}

void *mem_realloc_lua(void *block, size_t bytes) {
  return fault_due(true) ? NULL : realloc(block, bytes);
}

#ifdef LP_FAULTS
bool mem_refuses_lua(void) {
  return fault_due(true);
}
#endif

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
