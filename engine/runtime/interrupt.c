/* See interrupt.h. loop->running is written only by the loop's own thread and read by a
 * signal handler in that same thread, so relaxed order is enough. The request is an
 * atomic that stays set until the hook or a turn has seen it, and it is set before the
 * signal is sent: either the handler finds Lua running, or the next entry finds the
 * request. */
#include "runtime/interrupt.h"

#include <lauxlib.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "runtime/engine.h"
#include "runtime/node.h"
#include "runtime/task.h"

/* initial-exec: the handler must not be the first to touch it, nor allocate for it. */
static _Thread_local loop *thread_loop __attribute__((tls_model("initial-exec")));

enum { INSIST_NS = 200000000 };

static void interrupt_hook(lua_State *L, lua_Debug *activation);

/* Within the signal handler: "NODE" or "NODE LABEL" of what runs, for those who get no answer. */
static void tell_where(loop *here, lua_State *L) {
  uint64_t words[LOOP_WHERE] = {0};
  char *out = (char *)words, *end = out + sizeof words - 1;
  const node *node = node_of(L);
  const task *task = node->current;
  for (const char *c = node->name; c && *c && out < end; c++) *out++ = *c;
  if (task && task->label && out < end) *out++ = ' ';
  for (const char *c = task ? task->label : NULL; c && *c && out < end; c++) *out++ = *c;
  for (int i = 0; i < LOOP_WHERE; i++)
    atomic_store_explicit(&here->where[i], words[i], memory_order_relaxed);
}

static void interrupt_signal(int number) {
  (void)number;
  loop *here = thread_loop;
  if (!here) return;
  lua_State *L = atomic_load_explicit(&here->running, memory_order_relaxed);
  if (L) {
    tell_where(here, L);
    lua_sethook(L, interrupt_hook, LUA_MASKCOUNT, 1);
  } else if (here->work_until) {
    atomic_fetch_or(&here->interrupt, INTERRUPT_SLICE); /* it came early */
  }
}

void interrupt_where(const loop *loop, char *out) {
  uint64_t words[LOOP_WHERE];
  for (int i = 0; i < LOOP_WHERE; i++)
    words[i] = atomic_load_explicit(&loop->where[i], memory_order_relaxed);
  memcpy(out, words, sizeof words);
  out[sizeof words - 1] = 0;
}

void interrupt_install(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = interrupt_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGURG, &action, NULL);
}

loop *interrupt_thread(loop *now) {
  loop *before = thread_loop;
  thread_loop = now;
  return before;
}

void interrupt_send(loop *loop, int reason) {
  atomic_fetch_or(&loop->interrupt, reason);
  mailbox_wake(loop->box);
  if (!loop->engine->hooked && !atomic_load(&loop->ended)) pthread_kill(loop->thread, SIGURG);
}

void interrupt_arm(loop *loop, lua_State *L) {
  /* The bound of a host's poll is over already: the timer that tells will not come again. */
  if (loop->work_until && !lua_gethook(L) && clock_now() >= loop->work_until)
    lua_sethook(L, interrupt_hook, LUA_MASKCOUNT, INTERRUPT_STEP);
  if ((loop->engine->hooked || node_of(L)->instruction_limit) && !lua_gethook(L))
    lua_sethook(L, interrupt_hook, LUA_MASKCOUNT, INTERRUPT_STEP);
  /* A kill that raised in one coroutine goes on in the one that resumed it. */
  if (atomic_load_explicit(&loop->interrupt, memory_order_relaxed) || node_of(L)->killed ||
      node_of(L)->interrupted)
    lua_sethook(L, interrupt_hook, LUA_MASKCOUNT, 1);
}

/* The node is to die: gives way where it can; else raises, again and again, until the code
 * that cannot yield has been left. */
static void hook_kill(lua_State *L, node *node) {
  if (node_can_yield(node, L)) {
    node->mark = MARK_KILL;
    lua_yield(L, 0);
    return;
  }
  lua_sethook(L, interrupt_hook, LUA_MASKCOUNT | LUA_MASKLINE, 1000);
  lua_pushliteral(L, "the node was killed");
  lua_error(L);
}

/* Until there is something again. */
static void hook_rest(lua_State *L, const loop *here) {
  if (here->engine->hooked || node_of(L)->instruction_limit)
    lua_sethook(L, interrupt_hook, LUA_MASKCOUNT, INTERRUPT_STEP);
  else
    lua_sethook(L, NULL, 0, 0);
}

/* What computes is to stop. It may catch the error and has a moment to clean up; when it goes on,
 * the error strikes at every instruction, and so outside of whatever catches it. */
static void hook_interrupt(lua_State *L, node *node) {
  int64_t now = clock_now();
  bool first = node->interrupted_at == 0,
       insists = !first && now - node->interrupted_at > INSIST_NS;
  if (first) node->interrupted_at = now;
  lua_sethook(L, interrupt_hook, LUA_MASKCOUNT, insists ? 1 : 1000);
  if (first || insists) luaL_error(L, "interrupted");
}

/* A node that may use so many instructions and no more is at its end; where it was is told. */
static void instructions_over(lua_State *L, node *node) {
  char text[FAULT_TEXT];
  snprintf(
      text, sizeof text,
      "it failed: more than %lld instructions without waiting (a bound of this sandboxed node)",
      (long long)node->instruction_limit);
  luaL_traceback(L, L, NULL, 0);
  if (!node->end_text) node->end_trace = mem_format("%s\n%s", text + 11, lua_tostring(L, -1));
  lua_pop(L, 1);
  node_set_end(node, LP_RESOURCE_EXHAUSTED, text);
  node->killed = true;
  node_ready(node);
}

static void count_instructions(lua_State *L, node *node) {
  if (lua_gethookcount(L) != INTERRUPT_STEP || node->killed) return;
  node->instructions += INTERRUPT_STEP;
  if (node->instructions > node->instruction_limit && lua_checkstack(L, 4))
    instructions_over(L, node);
}

static void interrupt_hook(lua_State *L, lua_Debug *activation) {
  (void)activation;
  node *node = node_of(L);
  loop *here = node->loop;
  if (node->instruction_limit) count_instructions(L, node);
  if (!node->killed) hook_rest(L, here);
  int reasons = atomic_exchange(&here->interrupt, 0);
  if (here->work_until && clock_now() >= here->work_until) reasons |= INTERRUPT_SLICE;
  if (reasons & INTERRUPT_CONTROL) mailbox_run(here->box, MAILBOX_CONTROL, here);
  if (node->current && node->current->overdue && node_can_yield(node, L)) {
    node->mark = MARK_CLOSE;
    lua_yield(L, 0);
  } else if (node->killed) {
    hook_kill(L, node);
  } else if (node->interrupted && node->interrupted == node->current) {
    hook_interrupt(L, node);
  } else if ((reasons & INTERRUPT_SLICE || node->paused) && node_can_yield(node, L)) {
    node->mark = MARK_SLICE;
    lua_yield(L, 0);
  }
}
