/* See silence.h. */
#include "runtime/silence.h"

#include <string.h>

#include "base/memory.h"

struct silence {
  silence *next;
  char *why;
  char key[];
};

bool silence_init(silence_list *list) {
  list->first = NULL;
  atomic_init(&list->count, 0);
  return pthread_mutex_init(&list->lock, NULL) == 0;
}

static void silence_free(silence *gone) {
  mem_free(gone->why);
  mem_free(gone);
}

void silence_fini(silence_list *list) {
  for (silence *each = list->first, *next; each; each = next) {
    next = each->next;
    silence_free(each);
  }
  pthread_mutex_destroy(&list->lock);
}

static silence **place_of(silence_list *list, const char *key) {
  silence **place = &list->first;
  while (*place && strcmp((*place)->key, key) != 0) place = &(*place)->next;
  return place;
}

static silence *silence_new(const char *key, const char *why) {
  size_t bytes = strlen(key) + 1;
  silence *made = mem_new(sizeof *made + bytes);
  if (!made) return NULL;
  memcpy(made->key, key, bytes);
  made->why = mem_strdup(why);
  if (made->why) return made;
  mem_free(made);
  return NULL;
}

bool silence_set(silence_list *list, const char *key, const char *why) {
  silence *made = why ? silence_new(key, why) : NULL;
  if (why && !made) return false;
  pthread_mutex_lock(&list->lock);
  silence **place = place_of(list, key), *old = *place;
  if (old) *place = old->next;
  if (made) {
    made->next = list->first;
    list->first = made;
  }
  atomic_fetch_add(&list->count, (made ? 1 : 0) - (old ? 1 : 0));
  pthread_mutex_unlock(&list->lock);
  if (old) silence_free(old);
  return true;
}

bool silence_find(silence_list *list, const char *key, fault *fault) {
  if (atomic_load_explicit(&list->count, memory_order_relaxed) == 0) return false;
  pthread_mutex_lock(&list->lock);
  const silence *found = *place_of(list, key);
  if (found) fault_set(fault, LP_UNAVAILABLE, "%s", found->why);
  pthread_mutex_unlock(&list->lock);
  return found != NULL;
}
