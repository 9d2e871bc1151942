/* Tasks and coroutines on a loop that the test turns: waits and what ends them, coroutines
 * within tasks, and how both are closed and killed. */
#include <pthread.h>
#include <sched.h>

#include "harness.h"
#include "runtime/interrupt.h"
#include "runtime/task.h"

static harness at;

static bool printed(const char *text) {
  if (strcmp(at.output, text) == 0) return true;
  fprintf(stderr, "printed: %s\n", at.output);
  return false;
}

/* ---- waits ------------------------------------------------------------------ */

static void test_a_task_sleeps_is_woken_and_times_out(void) {
  harness_begin(&at);
  CHECK(harness_run(
      &at,
      "local begin = core.now() core.sleep(0.02) assert(core.now() - begin >= 0.02)"
      " core.yield()"
      " local token = core.token()"
      " core.start(function() assert(core.wake(token)) assert(not core.wake(token)) end)"
      " assert(core.park() == true)"
      " core.token() assert(core.park(0.01) == false)"
      " local early = core.token() assert(core.wake(early)) assert(core.park() == true)"
      " assert(not core.wake(early)) core.finish()"));
  harness_end(&at);
}

static void test_a_token_of_a_closed_task_does_not_wake_the_next_one_in_its_place(void) {
  harness_begin(&at);
  CHECK(harness_run(
      &at,
      "local old"
      " local one = core.spawn(function() old = core.token() core.park() end) core.yield()"
      " one:cancel() core.yield()"
      /* Its coroutine is kept and used again, with another number. */
      " local two = core.spawn(function() core.token() return core.park(0.03) end) core.yield()"
      " assert(not core.wake(old))"
      " assert(two:result() == false) core.finish()"));
  harness_end(&at);
}

static void test_a_future_whose_waiter_was_cancelled_wakes_nobody_else(void) {
  harness_begin(&at);
  CHECK(harness_run(
      &at,
      "local future = core.future()"
      " local waiter = core.spawn(function() future:result() end) core.yield()"
      " waiter:cancel() core.yield()"
      " local other = core.spawn(function() core.token() return core.park(0.03) end) core.yield()"
      " core.resolve(future, true, 1) assert(other:result() == false)"
      " assert(future:result() == 1) core.finish()"));
  harness_end(&at);
}

static void test_cancelling_raises_at_the_wait_and_at_every_later_one(void) {
  harness_begin(&at);
  CHECK(harness_run(&at,
                    "local codes = {}"
                    " local task = core.spawn(function()"
                    "   for i = 1, 3 do local _, err = pcall(core.sleep, 9) codes[i] = err.code end"
                    "   core.shield(function() core.sleep(0.001) codes[4] = 'shielded' end) end)"
                    " core.yield() task:cancel() core.sleep(0.05)"
                    " assert(table.concat(codes, ' ') == 'cancelled cancelled cancelled shielded')"
                    " core.finish()"));
  harness_end(&at);
}

static void test_an_error_in_a_task_nobody_waits_for_fails_the_node(void) {
  harness_begin(&at);
  harness_node(&at, "one", "core.start(function() error 'lost' end) core.sleep(9)");
  TURN_UNTIL(&at, at.ended);
  CHECK(at.status == LP_ABORTED && strstr(at.text, "lost"));
  harness_end(&at);
}

/* ---- coroutines ---------------------------------------------------------------- */

static void test_waits_pass_through_coroutines_and_yields_stay_within(void) {
  harness_begin(&at);
  CHECK(harness_run(
      &at,
      "local function numbers() for i = 1, 3 do core.sleep(0.001) coroutine.yield(i) end end"
      " local sum = 0 for i in coroutine.wrap(numbers) do sum = sum + i end assert(sum == 6)"
      " local function nest(n) if n == 0 then core.sleep(0.001) return 'deep' end"
      "   return coroutine.wrap(nest)(n - 1) end"
      " assert(nest(100) == 'deep')"
      " assert(not pcall(nest, 300))"
      " assert(coroutine.wrap(function() return pcall(core.sleep, 0.001) end)() == true)"
      " core.finish()"));
  harness_end(&at);
}

static void test_a_coroutine_that_waits_and_a_tasks_own_cannot_be_resumed_by_others(void) {
  harness_begin(&at);
  CHECK(harness_run(
      &at,
      "local own, inner"
      " local task = core.spawn(function() own = coroutine.running()"
      "   inner = coroutine.create(function() core.sleep(0.01) return 'slept' end)"
      "   return coroutine.resume(inner) end)"
      " core.yield()"
      " assert(not coroutine.resume(own)) assert(not coroutine.resume(inner))"
      " assert(coroutine.status(own) == 'normal' and coroutine.status(inner) == 'normal')"
      " assert(not pcall(coroutine.close, own)) assert(not pcall(coroutine.close, inner))"
      " local ok, word = task:result() assert(ok and word == 'slept')"
      " assert(coroutine.status(own) == 'dead' and not coroutine.resume(own))"
      " local again = core.spawn(function() core.sleep(0.01) return coroutine.running() end)"
      " assert(not coroutine.resume(own)) core.yield() assert(not coroutine.resume(own))"
      " again:result()"
      " local ok, text = coroutine.resume(coroutine.running())"
      " assert(ok == false and text:find 'non%-suspended') core.finish()"));
  harness_end(&at);
}

static void test_where_lua_cannot_yield_a_wait_raises_and_the_state_stays_sound(void) {
  harness_begin(&at);
  CHECK(harness_run(&at,
                    "local ok, err = pcall(table.sort, {2, 1}, function() core.sleep(1) end)"
                    " assert(not ok and err.code == 'failed_precondition')"
                    " local function sorts() table.sort({2, 1}, function() core.sleep(1) end) end"
                    " assert(not coroutine.resume(coroutine.create(sorts)))"
                    " local text = setmetatable({}, {__tostring = function() core.yield() end})"
                    " assert(not pcall(tostring, text)) core.sleep(0.001) core.finish()"));
  harness_end(&at);
}

/* ---- closing ------------------------------------------------------------------- */

static void test_a_killed_node_closes_innermost_first(void) {
  harness_begin(&at);
  node *node = harness_node(
      &at, "one",
      "local function closes(word) return setmetatable({}, {__close = function()"
      "   local ok = pcall(core.sleep, 1) core.print(word, ok) end}) end"
      " local a <close> = closes 'outer' local b <close> = closes 'outer, later'"
      " coroutine.wrap(function() local c <close> = closes 'middle'"
      "   coroutine.wrap(function() local d <close> = closes 'inner' core.sleep(99) end)() end)()");
  TURN_UNTIL(&at, node->task_count && node->tasks[0]->state == TASK_WAITING);
  harness_kill(node);
  TURN_UNTIL(&at, at.ended);
  CHECK(printed("inner\tfalse\nmiddle\tfalse\nouter, later\tfalse\nouter\tfalse\n"));
  CHECK(at.status == LP_CANCELLED);
  harness_end(&at);
}

static void test_close_handlers_that_do_not_end_are_ended(void) {
  harness_begin(&at);
  node *node = harness_node(
      &at, "one",
      "local old = coroutine.create(function() coroutine.yield() while true do end end)"
      " coroutine.resume(old)"
      " local function loops() while true do pcall(function() while true do end end) end end"
      " local last <close> = setmetatable({}, {__close = function() core.print 'last' end})"
      " local a <close> = setmetatable({}, {__close = loops})"
      " local b <close> = setmetatable({}, {__close = function() coroutine.resume(old) end})"
      " local c <close> = setmetatable({}, {__close = function() coroutine.wrap(loops)() end})"
      " core.sleep(99)");
  TURN_UNTIL(&at, node->task_count && node->tasks[0]->state == TASK_WAITING);
  int64_t begin = clock_now();
  harness_kill(node);
  TURN_UNTIL(&at, at.ended);
  CHECK(clock_now() - begin < INT64_C(15000000000));
  CHECK(strstr(at.output, "last") || at.status == LP_CANCELLED);
  harness_end(&at);
}

static void test_a_node_closes_with_tasks_in_every_state(void) {
  harness_begin(&at);
  node *node =
      harness_node(&at, "one",
                   "local future = core.future()"
                   " core.spawn(function() future:result() end)"
                   " core.spawn(function() core.park() end)"
                   " core.spawn(function() core.sleep(99) end)"
                   " core.spawn(function() local x <close> = setmetatable({}, {__close = function()"
                   "   core.spawn(function() core.print 'never' end) end}) core.sleep(99) end)"
                   " future:add_done_callback(print)"
                   " core.spawn(function() end):cancel()"
                   " core.yield() core.spawn(function() end) core.exit(true, 'left')");
  (void)node;
  TURN_UNTIL(&at, at.ended);
  CHECK(at.status == LP_OK && printed(""));
  harness_end(&at);
}

/* ---- interrupts ------------------------------------------------------------------ */

typedef struct killer {
  message message;
  loop *loop;
  uint64_t id;
} killer;

static void kill_run(message *carried, void *loop) {
  node *node = loop_find_node(loop, ((killer *)carried)->id);
  if (node) harness_kill(node);
}

static void kill_drop(message *carried) {
  (void)carried;
}

/* Kills the node as soon as it computes. */
static void *killer_main(void *argument) {
  killer *self = argument;
  while (!atomic_load(&self->loop->running)) sched_yield();
  mailbox_push(self->loop->box, MAILBOX_CONTROL, &self->message);
  interrupt_send(self->loop, INTERRUPT_CONTROL);
  return NULL;
}

static void check_killed(const char *text) {
  pthread_t thread;
  harness_begin(&at);
  interrupt_thread(at.loop);
  node *node = harness_node(&at, "one", text);
  killer self = {{.run = kill_run, .drop = kill_drop}, at.loop, node->id};
  pthread_create(&thread, NULL, killer_main, &self);
  TURN_UNTIL(&at, at.ended);
  pthread_join(thread, NULL);
  CHECK(at.status == LP_CANCELLED);
  interrupt_thread(NULL);
  harness_end(&at);
}

__attribute__((unused)) static void test_code_that_computes_is_killed_wherever_it_is(void) {
  check_killed("while true do end");
  check_killed("while true do pcall(function() while true do end end) end");
  check_killed("while true do coroutine.wrap(function() while true do end end)() end");
  check_killed("while true do pcall(table.sort, {1, 2, 3}, function() while true do end end) end");
  check_killed(
      "local function hold() while true do end end"
      " while true do local co = coroutine.create(function()"
      "   local x <close> = setmetatable({}, {__close = hold}) coroutine.yield() end)"
      " coroutine.resume(co) pcall(coroutine.close, co) end");
}

int main(void) {
  interrupt_install();
  RUN(test_a_task_sleeps_is_woken_and_times_out);
  RUN(test_a_token_of_a_closed_task_does_not_wake_the_next_one_in_its_place);
  RUN(test_a_future_whose_waiter_was_cancelled_wakes_nobody_else);
  RUN(test_cancelling_raises_at_the_wait_and_at_every_later_one);
  RUN(test_an_error_in_a_task_nobody_waits_for_fails_the_node);
  RUN(test_waits_pass_through_coroutines_and_yields_stay_within);
  RUN(test_a_coroutine_that_waits_and_a_tasks_own_cannot_be_resumed_by_others);
  RUN(test_where_lua_cannot_yield_a_wait_raises_and_the_state_stays_sound);
  RUN(test_a_killed_node_closes_innermost_first);
  RUN(test_close_handlers_that_do_not_end_are_ended);
  RUN(test_a_node_closes_with_tasks_in_every_state);
#ifndef __SANITIZE_THREAD__ /* which holds signals back as long as code computes */
  RUN(test_code_that_computes_is_killed_wherever_it_is);
#endif
  return TEST_END();
}
