/* Reaching Lua code that computes. No hook is armed in normal running: another thread
 * sends SIGURG to the loop's thread, whose handler arms a hook on the coroutine that runs
 * there; at the next instruction the hook drains the control queue and, where Lua can
 * yield, gives way for a time slice or a kill. Where it cannot yield it raises.
 *
 * The signal's handler is installed by the command (interrupt_install); the library
 * changes no disposition by itself. */
#ifndef LP_RUNTIME_INTERRUPT_H
#define LP_RUNTIME_INTERRUPT_H

#include <lua.h>

#include "runtime/engine.h"
#include "runtime/node.h"

/* Without the handler (engine.hooked: a host that does not want it) the hook stays armed in all
 * that runs and looks every INTERRUPT_STEP instructions whether there is something. Then pure
 * Lua code takes up to twice as long. */
enum { INTERRUPT_STEP = 1000 };

/* Installs the handler of SIGURG for the process. */
void interrupt_install(void);

/* Says which loop this thread runs; NULL when it ends. Returns which it was. */
loop *interrupt_thread(loop *loop);

/* From any thread: has `loop` look at its control queue (INTERRUPT_CONTROL) or give up its
 * slice (INTERRUPT_SLICE) even while it computes. */
void interrupt_send(loop *loop, int reason);

/* From any thread: which node computed at the last interrupt, and its method: "worker/0 step".
 * `out` has room for LOOP_WHERE words of 8 bytes. May be torn when interrupts follow each other. */
void interrupt_where(const loop *loop, char *out);

/* Around every entry into Lua, user coroutines included: `L` is what runs now (NULL: no
 * Lua). Arms the hook when an interrupt is waiting. */
void interrupt_arm(loop *loop, lua_State *L); /* its rare half */
static inline void interrupt_running(loop *loop, lua_State *L) {
  atomic_store_explicit(&loop->running, L, memory_order_relaxed);
  if (!L) return;
  const node *node = node_of(L);
  if (loop->engine->hooked || node->instruction_limit || node->killed || node->interrupted ||
      loop->work_until || atomic_load_explicit(&loop->interrupt, memory_order_relaxed))
    interrupt_arm(loop, L);
}

#endif
