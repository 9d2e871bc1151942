/* The engine: what the loops and nodes of one process share. A directory that finds a
 * node by its key, and a way to tell the service thread what happened. Several engines
 * may live in one process; nothing here is global. */
#ifndef LP_RUNTIME_ENGINE_H
#define LP_RUNTIME_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/mailbox.h"
#include "base/status.h"
#include "runtime/loop.h"
#include "runtime/silence.h"
#include "runtime/terms.h"

/* Something the service thread should hear of. */
typedef enum event_kind {
  EVENT_NODE_ENDED, /* id, name = key, status, text */
  EVENT_OUTPUT,     /* id, status = stream (1 or 2), text of length bytes */
  EVENT_LOG,        /* id, status = level, text */
  EVENT_ANSWER,     /* id = ticket, status, text of length bytes; see inspect.h */
  EVENT_SIGNAL      /* status = signal number */
} event_kind;

typedef struct event {
  message message;
  event_kind kind;
  uint64_t id;
  int status;
  const char *name;
  size_t length;
  const char *text; /* terminated */
} event;

typedef struct engine {
  loop *service; /* its thread runs the policy; events go to its mailbox */
  /* Called on the service thread with each event, which is freed afterwards. */
  void (*on_event)(struct engine *engine, const event *event);
  void *owner;
  /* Called by any thread before a node starts a program (io.popen, os.execute); or NULL. */
  void (*on_child)(struct engine *engine);
  /* Memory of interpreters, as lua_Alloc, from any thread; NULL: the engine's own allocator. */
  void *(*allocate)(void *user, void *block, size_t old_bytes, size_t bytes);
  void *allocate_user;
  /* Who answers the calls of the host nodes of this name, in C; NULL: nobody. On the thread of
   * the loop "host". The field itself NULL: there are no host nodes here. */
  const struct native_body *(*native)(struct engine *engine, const char *name);
  void *native_owner;
  bool hooked;           /* no signals: the interrupt hook stays armed, see interrupt.h */
  pthread_mutex_t lock;  /* guards the directory */
  list entries;          /* the directory */
  hash directory;        /* the same, by key */
  silence_list silences; /* nodes of other processes that do not answer */
  atomic_uint_fast64_t next_id;
  atomic_size_t output_queued; /* bytes of EVENT_OUTPUT and EVENT_LOG not yet printed */
  atomic_size_t logs_dropped;  /* lines, since that was last said */
  int64_t spin_ns;             /* of loops for nodes, see loop.h */
  bool metrics_off;            /* calls are counted, but not timed; set before nodes are made */
} engine;

bool engine_init(engine *engine);
void engine_fini(engine *engine);

/* Enters a node under `key`; already_exists when a live one has it. `terms` are told to those who
 * look for it. `ahead` (or NULL) is pushed into `box` before anybody can find the node; unless
 * LP_OK comes back it is still the caller's. */
lp_status engine_add(engine *engine, const char *key, mailbox *box, uint64_t id, terms terms,
                     message *ahead);
/* The node of `key` ended: later look-ups say how. */
void engine_end(engine *engine, const char *key, lp_status status, const char *text);
/* Whether the node of `key` is started again when it ends. Until it is back it is as if it were
 * of another process: whoever looks for it asks the policy, which knows when. */
void engine_returns(engine *engine, const char *key, bool returns);
/* Removes every entry whose key begins with `prefix` and that has ended. */
void engine_forget(engine *engine, const char *prefix);

/* Where a node of this process is. */
typedef struct place {
  mailbox *box; /* a reference the caller drops; NULL unless found */
  uint64_t id;
  terms terms;
} place;
/* LP_OK: found. LP_NOT_FOUND: not of this process. LP_UNAVAILABLE: it ended, the fault says how. */
lp_status engine_find(engine *engine, const char *key, place *out, fault *fault);

/* Calls `fn` for each node that lives here, under the directory's lock: it only posts. */
void engine_each(engine *engine, void (*fn)(mailbox *box, uint64_t id, void *owner), void *owner);

/* Tells the service thread, from any thread. False when memory is out or it is gone. */
bool engine_post(engine *engine, event_kind kind, uint64_t id, int status, const char *name,
                 const char *text, size_t length);

/* An event kept in reserve for the one thing that must not be lost to want of memory: the end
 * of the node `key`. NULL: memory is out. */
event *engine_reserve(const char *key);
/* Tells the end of a node: in full when there is memory, else with the reserved event, which is
 * freed in any case. */
void engine_post_end(engine *engine, event *reserved, uint64_t id, lp_status status,
                     const char *text);

#endif
