/* Questions to a node from the service thread. They are answered by the node's own loop, in its
 * turn or within an interrupt while it computes, so that nothing in a node needs a lock. What is
 * told is written in C (wire/writer.h) and without running Lua, since the interpreter may be in
 * the middle of something. A loop that is inside a C function does not answer; who asked
 * waits no longer than he likes. */
#ifndef LP_RUNTIME_INSPECT_H
#define LP_RUNTIME_INSPECT_H

#include "runtime/loop.h"
#include "runtime/node.h"
#include "wire/writer.h"

struct task;

/* Asks node `id` of `loop` for `what`, which node_hooks.on_inspect understands. The answer is
 * an EVENT_ANSWER with the id `ticket`: status LP_OK and one MessagePack array with one value, or
 * another status and a text. False: memory is out. */
bool inspect_ask(loop *loop, uint64_t id, const char *what, uint64_t ticket);

/* The same of all nodes that live there: the one value is an array with an array [id, answer] for
 * each. */
bool inspect_ask_all(loop *loop, const char *what, uint64_t ticket);

/* Has the node that computes on `loop` since then tell so (node_hooks.on_busy): loop->answered
 * says that it was asked, loop->watched that it has told. False: memory is out. */
bool inspect_busy(loop *loop, int64_t since);

/* Calls `fn` with the levels of a task's Lua stack, see inspect_stack. */
typedef void (*inspect_line)(void *owner, const char *line);
void inspect_lines(const node *node, const struct task *task, inspect_line fn, void *owner);

/* Writes the Lua stack of a task as the value that comes next: an array of texts such as
 * "worker.lua:12: in method 'step'", innermost first, user coroutines within the task included,
 * or with task NULL the stack of the main state while it runs. */
void inspect_stack(const node *node, const struct task *task, writer *out);

#endif
