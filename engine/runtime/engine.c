/* See engine.h. */
#include "runtime/engine.h"

#include <string.h>

#include "base/memory.h"

typedef struct entry {
  list link;        /* engine->entries */
  hash_link by_key; /* engine->directory */
  mailbox *box;     /* NULL once the node has ended */
  uint64_t id;
  bool returns; /* when it ends it is started again: see engine_returns */
  terms terms;
  lp_status status;
  char *text; /* how it ended */
  char key[];
} entry;

bool engine_init(engine *engine) {
  memset(engine, 0, sizeof *engine);
  atomic_init(&engine->next_id, 1);
  list_init(&engine->entries);
  return silence_init(&engine->silences) && pthread_mutex_init(&engine->lock, NULL) == 0;
}

static void entry_free(engine *engine, entry *entry) {
  list_remove(&entry->link);
  hash_remove(&engine->directory, &entry->by_key);
  mailbox_unref(entry->box);
  mem_free(entry->text);
  mem_free(entry);
}

void engine_fini(engine *engine) {
  while (!list_empty(&engine->entries))
    entry_free(engine, list_entry(engine->entries.next, entry, link));
  hash_fini(&engine->directory);
  pthread_mutex_destroy(&engine->lock);
  silence_fini(&engine->silences);
}

static entry *entry_find(engine *engine, const char *key) {
  hash_link *link = hash_find(&engine->directory, hash_text(key));
  for (; link; link = hash_again(link)) {
    entry *found = list_entry(link, entry, by_key);
    if (strcmp(found->key, key) == 0) return found;
  }
  return NULL;
}

/* The entry of `key`, made if there is none; NULL: no memory. */
static entry *entry_get(engine *engine, const char *key) {
  entry *known = entry_find(engine, key);
  if (known) return known;
  size_t bytes = strlen(key) + 1;
  entry *made = mem_new(sizeof *made + bytes);
  if (!made) return NULL;
  memcpy(made->key, key, bytes);
  list_push(&engine->entries, &made->link);
  hash_put(&engine->directory, &made->by_key, hash_text(key));
  return made;
}

lp_status engine_add(engine *engine, const char *key, mailbox *box, uint64_t id, terms terms,
                     message *ahead) {
  pthread_mutex_lock(&engine->lock);
  entry *added = entry_get(engine, key);
  lp_status status = LP_OK;
  if (!added) {
    status = LP_RESOURCE_EXHAUSTED;
  } else if (added->box) {
    status = LP_ALREADY_EXISTS;
  } else if (ahead && !mailbox_push(box, MAILBOX_MAIL, ahead)) {
    status = LP_UNAVAILABLE;
  } else {
    added->box = mailbox_ref(box);
    added->id = id;
    added->terms = terms;
  }
  pthread_mutex_unlock(&engine->lock);
  return status;
}

void engine_end(engine *engine, const char *key, lp_status status, const char *text) {
  pthread_mutex_lock(&engine->lock);
  entry *ended = entry_get(engine, key);
  if (ended) {
    mailbox_unref(ended->box);
    ended->box = NULL;
    ended->status = status;
    mem_free(ended->text);
    ended->text = mem_strdup(text);
  }
  pthread_mutex_unlock(&engine->lock);
}

void engine_returns(engine *engine, const char *key, bool returns) {
  pthread_mutex_lock(&engine->lock);
  entry *known = returns ? entry_get(engine, key) : entry_find(engine, key);
  if (known) known->returns = returns;
  pthread_mutex_unlock(&engine->lock);
}

void engine_forget(engine *engine, const char *prefix) {
  size_t length = strlen(prefix);
  pthread_mutex_lock(&engine->lock);
  for (list *each = engine->entries.next, *next; each != &engine->entries; each = next) {
    next = each->next;
    entry *one = list_entry(each, entry, link);
    if (!one->box && strncmp(one->key, prefix, length) == 0) entry_free(engine, one);
  }
  pthread_mutex_unlock(&engine->lock);
}

lp_status engine_find(engine *engine, const char *key, place *out, fault *fault) {
  pthread_mutex_lock(&engine->lock);
  entry *found = entry_find(engine, key);
  lp_status status = LP_OK;
  if (!found || (!found->box && found->returns)) {
    status = fault_set(fault, LP_NOT_FOUND, "no node %s in this process", key);
  } else if (!found->box) {
    status = fault_set(fault, LP_UNAVAILABLE, "%s", found->text ? found->text : "the node ended");
  } else {
    out->box = mailbox_ref(found->box);
    out->id = found->id;
    out->terms = found->terms;
  }
  pthread_mutex_unlock(&engine->lock);
  return status;
}

void engine_each(engine *engine, void (*fn)(mailbox *box, uint64_t id, void *owner), void *owner) {
  pthread_mutex_lock(&engine->lock);
  for (list *link = engine->entries.next; link != &engine->entries; link = link->next) {
    const entry *each = list_entry(link, entry, link);
    if (each->box) fn(each->box, each->id, owner);
  }
  pthread_mutex_unlock(&engine->lock);
}

static void event_drop(message *carried) {
  mem_free(carried);
}

static void event_run(message *carried, void *at) {
  engine *engine = ((loop *)at)->engine;
  if (engine->on_event) engine->on_event(engine, (event *)carried);
  mem_free(carried);
}

/* An event with copies of the name and of `length` bytes of text. */
static event *event_new(const char *name, const char *text, size_t length) {
  size_t name_bytes = strlen(name) + 1;
  event *made = mem_alloc(sizeof *made + name_bytes + length + 1);
  if (!made) return NULL;
  char *copy = (char *)(made + 1);
  memcpy(copy, name, name_bytes);
  if (length) memcpy(copy + name_bytes, text, length);
  copy[name_bytes + length] = 0;
  *made = (event){.message = {.run = event_run, .drop = event_drop},
                  .name = copy,
                  .length = length,
                  .text = copy + name_bytes};
  return made;
}

static bool event_post(engine *engine, event *posted) {
  if (mailbox_push(engine->service->box, MAILBOX_MAIL, &posted->message)) return true;
  mem_free(posted);
  return false;
}

bool engine_post(engine *engine, event_kind kind, uint64_t id, int status, const char *name,
                 const char *text, size_t length) {
  event *posted = event_new(name, text, length);
  if (!posted) return false;
  posted->kind = kind;
  posted->id = id;
  posted->status = status;
  return event_post(engine, posted);
}

event *engine_reserve(const char *key) {
  static const char text[] = "it ended, and memory was out";
  return event_new(key, text, sizeof text - 1);
}

void engine_post_end(engine *engine, event *reserved, uint64_t id, lp_status status,
                     const char *text) {
  event *full = event_new(reserved->name, text, strlen(text));
  if (full) mem_free(reserved);
  event *posted = full ? full : reserved;
  posted->kind = EVENT_NODE_ENDED;
  posted->id = id;
  posted->status = (int)status;
  event_post(engine, posted);
}
