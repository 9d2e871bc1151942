/* Intrusive doubly linked list: a head is a link pointing at itself, an element
 * embeds a link. Nothing allocates, removal needs no search, and removing an
 * element that is in no list is harmless once it was initialised. */
#ifndef LP_BASE_LIST_H
#define LP_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct list {
  struct list *next, *prev;
} list;

/* The structure of type `type` whose field `field` is the link `link`. */
#define list_entry(link, type, field) ((type *)(void *)((char *)(link)-offsetof(type, field)))

static inline void list_init(list *head) {
  head->next = head->prev = head;
}

static inline bool list_empty(const list *head) {
  return head->next == head;
}

static inline void list_push(list *head, list *link) { /* at the end */
  link->prev = head->prev;
  link->next = head;
  head->prev->next = link;
  head->prev = link;
}

static inline void list_push_front(list *head, list *link) {
  list_push(head->next, link);
}

static inline void list_remove(list *link) {
  link->prev->next = link->next;
  link->next->prev = link->prev;
  list_init(link);
}

static inline list *list_pop(list *head) { /* the first, or NULL */
  if (list_empty(head)) return NULL;
  list *link = head->next;
  list_remove(link);
  return link;
}

/* Moves every element of `from` to the end of `to`. */
static inline void list_splice(list *to, list *from) {
  if (list_empty(from)) return;
  from->next->prev = to->prev;
  from->prev->next = to;
  to->prev->next = from->next;
  to->prev = from->prev;
  list_init(from);
}

#endif
