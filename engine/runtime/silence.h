/* Nodes of other processes that do not answer at present: their process is stopped, or its
 * machine is. Whoever watches over processes says so here, for all loops of this one. Asked
 * far more often than changed, and nearly always empty. */
#ifndef LP_RUNTIME_SILENCE_H
#define LP_RUNTIME_SILENCE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/status.h"

typedef struct silence silence;

typedef struct silence_list {
  pthread_mutex_t lock;
  silence *first;
  atomic_int count;
} silence_list;

bool silence_init(silence_list *list);
void silence_fini(silence_list *list);
/* The node of `key` is silent, for this reason, or (NULL) answers again. False: memory is out. */
bool silence_set(silence_list *list, const char *key, const char *why);
/* Is it silent? Then the fault says why. From any thread. */
bool silence_find(silence_list *list, const char *key, fault *fault);

#endif
