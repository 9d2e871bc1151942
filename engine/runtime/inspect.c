/* See inspect.h. */
#include "runtime/inspect.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "runtime/engine.h"
#include "runtime/interrupt.h"
#include "runtime/task.h"

/* ---- asking ----------------------------------------------------------------- */

typedef struct question {
  message message;
  uint64_t id; /* 0: all nodes of the loop */
  uint64_t ticket;
  bool again; /* came back behind the mail */
  char what[32];
} question;

static void question_drop(message *carried) {
  mem_free(carried);
}

static void answer(engine *engine, const question *asked, lp_status status, const void *bytes,
                   size_t length) {
  engine_post(engine, EVENT_ANSWER, asked->ticket, (int)status, "", bytes, length);
}

static void answer_text(engine *engine, const question *asked, lp_status status, const char *text) {
  answer(engine, asked, status, text, strlen(text));
}

/* Writes what the node says. False: it does not know the question, and nothing was written. */
static bool write_answer(node *node, const question *asked, writer *out) {
  return node->hooks->on_inspect && node->hooks->on_inspect(node, asked->what, out);
}

/* Nil for those that say nothing: they are about to end. */
static bool write_answers(loop *here, const question *asked, writer *out) {
  writer_array(out);
  for (list *each = here->nodes.next; each != &here->nodes; each = each->next) {
    node *one = list_entry(each, node, link);
    writer_array(out);
    writer_integer(out, (int64_t)one->id);
    if (!write_answer(one, asked, out)) writer_text(out, NULL);
    writer_close(out);
  }
  writer_close(out);
  return true;
}

/* `node` NULL: of all nodes of the loop. */
static void tell(loop *here, node *node, const question *asked) {
  writer out = {0};
  writer_array(&out);
  bool known = node ? write_answer(node, asked, &out) : write_answers(here, asked, &out);
  writer_close(&out);
  if (!known)
    answer_text(here->engine, asked, LP_NOT_FOUND, "there is no such question");
  else if (out.failed)
    answer_text(here->engine, asked, LP_RESOURCE_EXHAUSTED, "out of memory");
  else
    answer(here->engine, asked, LP_OK, out.out.data, out.out.length);
  buffer_fini(&out.out);
}

/* Possibly inside of an interrupt: no Lua may run here. */
static void question_run(message *carried, void *at) {
  question *asked = (question *)carried;
  loop *here = at;
  node *node = asked->id ? loop_find_node(here, asked->id) : NULL;
  if (asked->id && !node && !asked->again) { /* not born yet: its birth is ahead in the mail */
    asked->again = true;
    if (mailbox_push(here->box, MAILBOX_MAIL, carried)) return;
  }
  if (node || !asked->id)
    tell(here, node, asked);
  else
    answer_text(here->engine, asked, LP_UNAVAILABLE, "the node has ended");
  mem_free(asked);
}

bool inspect_ask(loop *loop, uint64_t id, const char *what, uint64_t ticket) {
  question *asked = mem_new(sizeof *asked);
  if (!asked) return false;
  *asked = (question){{.run = question_run, .drop = question_drop}, id, ticket, false, ""};
  snprintf(asked->what, sizeof asked->what, "%s", what);
  if (!mailbox_push(loop->box, MAILBOX_CONTROL, &asked->message)) {
    answer_text(loop->engine, asked, LP_UNAVAILABLE, "the node has ended");
    mem_free(asked);
    return true;
  }
  interrupt_send(loop, INTERRUPT_CONTROL);
  return true;
}

bool inspect_ask_all(loop *loop, const char *what, uint64_t ticket) {
  return inspect_ask(loop, 0, what, ticket);
}

/* ---- watching ---------------------------------------------------------------- */

typedef struct watch {
  message message;
  int64_t since;
  uint_fast64_t resumes; /* of the loop, when it was asked */
} watch;

static void watch_drop(message *carried) {
  mem_free(carried);
}

/* The node that computes; NULL when what was asked about is over, or was told already. */
static node *still_at_it(const loop *here, const watch *asked) {
  lua_State *L = atomic_load_explicit(&here->running, memory_order_relaxed);
  bool same = atomic_load_explicit(&here->resumes, memory_order_relaxed) == asked->resumes;
  return L && same && atomic_load(&here->watched) != asked->resumes + 1 ? node_of(L) : NULL;
}

static void watch_run(message *carried, void *at) {
  loop *here = at;
  watch *asked = (watch *)carried;
  node *node = still_at_it(here, asked);
  double seconds = (double)(clock_now() - asked->since) * 1e-9;
  bool said = node && node->hooks->on_busy && node->hooks->on_busy(node, seconds);
  if (said) atomic_store(&here->watched, asked->resumes + 1);
  atomic_store(&here->answered, true);
  mem_free(asked);
}

bool inspect_busy(loop *loop, int64_t since) {
  watch *sent = mem_new(sizeof *sent);
  if (!sent) return false;
  *sent = (watch){{.run = watch_run, .drop = watch_drop}, since, atomic_load(&loop->resumes)};
  if (!mailbox_push(loop->box, MAILBOX_CONTROL, &sent->message)) mem_free(sent);
  interrupt_send(loop, INTERRUPT_CONTROL);
  return true;
}

/* ---- stacks ----------------------------------------------------------------- */

enum { STACK_LEVELS = 60, LINE_BYTES = 256 };

/* One level in the words of a traceback. False: a C function of the engine's own. */
static bool describe_level(lua_State *L, lua_Debug *level, char *out, size_t size) {
  if (!lua_getinfo(L, "Sln", level)) return false;
  bool in_c = level->what[0] == 'C';
  if (in_c && !level->name) return false;
  int length = in_c ? snprintf(out, size, "[C]: ")
                    : snprintf(out, size, "%s:%d: ", level->short_src, level->currentline);
  if (length < 0 || (size_t)length >= size) return true;
  if (level->what[0] == 'm')
    snprintf(out + length, size - (size_t)length, "in main chunk");
  else if (level->name)
    snprintf(out + length, size - (size_t)length, "in %s '%s'",
             *level->namewhat ? level->namewhat : "function", level->name);
  else
    snprintf(out + length, size - (size_t)length, "in function <%s:%d>", level->short_src,
             level->linedefined);
  return true;
}

/* The levels of one state; how many may still follow. */
static int each_level(lua_State *L, int left, inspect_line fn, void *owner) {
  lua_Debug level;
  char line[LINE_BYTES];
  for (int i = 0; lua_getstack(L, i, &level); i++) {
    if (!describe_level(L, &level, line, sizeof line)) continue;
    if (left-- == 0) {
      fn(owner, "...");
      return 0;
    }
    fn(owner, line);
  }
  return left;
}

void inspect_lines(const node *node, const task *task, inspect_line fn, void *owner) {
  int left = STACK_LEVELS;
  for (int i = task ? task->inner_count - 1 : -1; i >= 0 && left > 0; i--)
    left = each_level(task->inner[i], left, fn, owner);
  if (left > 0) each_level(task ? task->co : node->L, left, fn, owner);
}

static void write_line(void *owner, const char *line) {
  writer_text(owner, line);
}

void inspect_stack(const node *node, const task *task, writer *out) {
  writer_array(out);
  inspect_lines(node, task, write_line, out);
  writer_close(out);
}
