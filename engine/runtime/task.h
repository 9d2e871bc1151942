/* Tasks: the coroutines of a node that the engine resumes. Every incoming call, `run`,
 * the main chunk and lp.spawn is one. Finished ones are kept and used again.
 *
 * A task's base is a lua_pcallk, so an error ends the function and not the coroutine, and
 * its traceback is taken where it happened. A user's coroutines within a task are on its
 * list of inner states: a wait in the innermost passes outward through all of them. */
#ifndef LP_RUNTIME_TASK_H
#define LP_RUNTIME_TASK_H

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/status.h"
#include "runtime/node.h"
#include "runtime/timer.h"

typedef struct task task;

/* What a cancelled task has left to end, and close handlers to run. */
enum { TASK_GRACE_NS = 1000000000, TASK_GRACE_BOUNDED_NS = 2000000 };
/* Of a node whose instructions are bounded the close handlers get no more than a moment. */
static inline int64_t task_grace(const node *node) {
  return node->instruction_limit ? TASK_GRACE_BOUNDED_NS : TASK_GRACE_NS;
}

typedef enum task_state {
  TASK_IDLE,
  TASK_NEW, /* being prepared by its maker */
  TASK_READY,
  TASK_RUNNING,
  TASK_WAITING
} task_state;

/* What becomes of a task's outcome. */
typedef struct task_kind {
  const char *name; /* for people */
  /* The function returned (status LP_OK, results at index `first` and above of L) or raised
   * (the error, an lp.Error or a string, at `first`). Runs inside the task and may raise. */
  void (*done)(lua_State *L, task *task, bool ok, int first);
  /* Instead: the task was closed or done itself raised. No Lua may run. */
  void (*lost)(task *task, lp_status status, const char *text);
  /* It came back from running: it waits, gave up its slice, or (`task` NULL) has ended. May be
   * NULL. */
  void (*after)(node *node, task *task);
  bool is_call; /* a handler: a draining node waits for it */
} task_kind;

struct task {
  /* What every wait and every resume touches comes first, in as few cache lines as can be. */
  list link; /* node->ready or node->idle, else alone */
  node *node;
  lua_State *co;
  lua_State *waiter; /* innermost state that waits */
  const task_kind *kind;
  void *context; /* the kind's own */
  /* The wait ended otherwise than by what was waited for: let go of it. May be NULL. */
  void (*abandon)(task *task);
  void *waiting_for;
  int64_t deadline;    /* inherited by calls made from here; CLOCK_NEVER: none */
  int64_t waits_since; /* when the turn began in which its last wait did */
  task_state state;
  int nargs;           /* values on `waiter` for the resume to come */
  int inner_count;     /* user coroutines, see below */
  int depth;           /* of the state that runs now: 0 is co itself */
  int shield;          /* lp.shield calls it is in */
  lp_status cancelled; /* reason, LP_OK: not cancelled */
  lp_status raise;     /* to be raised when the wait resumes */
  bool can_yield;      /* every state outside of the running one could yield */
  bool started;        /* was resumed at least once */
  bool timed_out;
  bool failed;            /* the value given to the resume is an error to be raised */
  timer timer;            /* ends the wait */
  const char *raise_text; /* static, or NULL */
  const char *label;      /* what it does, for people, or NULL; lives as long as the node */
  int anchor;             /* registry reference of co */
  int slot;               /* in node->tasks */
  uint32_t wait;          /* number of the wait token given out last */
  bool woken;             /* that token was used before its wait began */
  bool overdue;           /* cancelled a second ago: closed at its next wait */
  int inner_size;         /* room of */
  lua_State **inner;      /* user coroutines, outermost first */
  int64_t statement;      /* by this number whoever typed it may interrupt it; 0: nobody did */
  int64_t began;          /* when the turn began in which it was made */
  struct timer grace;     /* from the cancellation to `overdue` */
};

/* A fresh task with an empty stack (its base is already pushed on co). Raises through `L`,
 * the state that runs (or the main state in node_enter). The maker pushes the function and its
 * arguments on task->co and calls task_start. */
task *task_new(lua_State *L, const task_kind *kind, void *context);
/* `nargs` arguments behind the function are on co. */
void task_start(task *task, int nargs);
/* The running task has ended what it was made for and goes on with another piece of the same kind,
 * as a fresh one would. It is neither cancelled nor does it wait. */
static inline void task_again(task *task) {
  loop *loop = task->node->loop;
  loop_count(loop);
  task->wait++;
  task->shield = 0;
  task->statement = 0;
  task->began = loop->now;
  task->node->instructions = 0;
}
/* A ready one is resumed before the node's others. */
static inline void task_hurry(task *task) {
  list_remove(&task->link);
  list_push_front(&task->node->ready, &task->link);
}
/* Gives a task that was never started back. */
void task_discard(task *task);

/* The running task of L's node; raises when no task runs (a message handler, __gc). */
task *task_current(lua_State *L);

/* Raises unless the running task can wait here and is not cancelled. Call it before doing
 * anything that only makes sense when the wait follows. */
task *task_before_wait(lua_State *L);
/* Waits until task_wake, or the absolute time `due`. `return task_yield(…)` from a C
 * function; `k` runs at resume with the values given and begins with task_after_wait. */
int task_yield(lua_State *L, task *task, int64_t due, lua_KContext context, lua_KFunction k);
/* Raises when the wait was cancelled; else false when it timed out. */
bool task_after_wait(lua_State *L);
/* Ends the wait; `nargs` values were pushed on task->waiter. */
void task_wake(task *task, int nargs);

/* Ends the wait it is in with an error, this once; false: it is in none (or shielded). The
 * text must live until the task has run. */
bool task_interrupt(task *task, lp_status status, const char *text);
/* Ends this wait with an error; makes nothing, so that it serves when memory is out. `text`
 * is static. What was waited for has let go of the task already. */
void task_fail(task *task, lp_status status, const char *text);

/* Ends its unshielded waits with an error of this status, now and later; a second after
 * that the task is closed at its next wait. `text` is static or NULL. */
void task_cancel(task *task, lp_status status, const char *text);
/* Closes its coroutines innermost first, runs nothing more of it. */
void task_close(task *task, lp_status status, const char *text);
/* While a task is closed: has code that runs in `co` end in time, too. */
void task_watch_closing(lua_State *co);
/* Resumes a ready task. */
void task_resume(task *task);
/* Frees a task that is idle or closed (its node is going). */
void task_free(task *task);

/* Replaces coroutine.* in the state by the engine's (coroutine.c). May raise. */
int coroutine_open(lua_State *L);
/* Tag of a coroutine that waits in the engine, and of a task's own while it does not run:
 * others must not resume it. */
static inline bool coroutine_waits(lua_State *co) {
  return *(uintptr_t *)lua_getextraspace(co) & 1;
}
static inline void coroutine_tag(lua_State *co, bool waits) {
  uintptr_t *place = lua_getextraspace(co);
  *place = (*place & ~(uintptr_t)1) | waits;
}

#endif
