/* Calls through lp.h: of nodes, of host nodes, and new code for nodes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "embed.h"

/* ---- calls ------------------------------------------------------------------ */

static void check_calls(const char *name) {
  lp_values *values = lp_values_new(), *results = lp_values_new();
  answer got = {0}, failed = {0}, late = {0}, unknown = {0};
  lp_node *node = node_named(name);
  OK(lp_push_integer(values, 42));
  OK(lp_push_nil(values));
  OK(lp_node_call(node, "echo", values, 30, keep_answer, &got));
  CHECK(lp_node_pending(node) == 1 && got.count == 0);
  lp_values_clear(values);
  OK(lp_push_string(values, "my_code"));
  OK(lp_node_call(node, "fail", values, 0, keep_answer, &failed));
  OK(lp_node_call(node, "nonesuch", NULL, 0, keep_answer, &unknown));
  lp_values_clear(values);
  OK(lp_push_number(values, 60));
  OK(lp_node_call(node, "slow", values, 0.01, keep_answer, &late));
  POLL_UNTIL(got.count && failed.count && late.count && unknown.count);
  CHECK(got.status == LP_OK && got.first == 42 && got.results == 2);
  CHECK(failed.status == LP_UNKNOWN && strcmp(failed.code, "my_code") == 0);
  CHECK(strcmp(failed.message, "broken") == 0 && strcmp(failed.node, name) == 0 && failed.traced);
  CHECK(late.status == LP_DEADLINE_EXCEEDED);
  CHECK(unknown.status == LP_NOT_FOUND && strstr(unknown.message, "nonesuch"));
  CHECK(lp_node_pending(node) == 0);
  OK(lp_node_notify(node, "echo", NULL));
  OK(lp_node_call(node, "echo", NULL, 0, NULL, NULL)); /* nobody wants to know */
  lp_values_clear(values);
  OK(lp_push_node(values, node));
  OK(lp_push_string(values, "there and back"));
  OK(lp_push_node(values, node));
  OK(lp_node_call_wait(node, "call", values, 30, results));
  lp_reader reader = lp_values_read(results);
  char text[32];
  lp_node *same = NULL;
  FAILS(lp_read_node(engine, &reader, &same), LP_INVALID_ARGUMENT, "no client");
  OK(lp_read_string(&reader, text, sizeof text));
  CHECK(strcmp(text, "there and back") == 0 && lp_read_kind(&reader) == LP_CLIENT);
  OK(lp_read_node(engine, &reader, &same));
  CHECK(strcmp(lp_node_name(same), name) == 0);
  OK(lp_node_call_wait(same, "echo", NULL, 30, NULL));
  FAILS(lp_node_call_wait(same, "fail", NULL, 30, NULL), LP_UNKNOWN, "broken");
  lp_node_free(same);
  lp_node_free(node);
  lp_values_free(values);
  lp_values_free(results);
}

static void test_nodes_are_called(void) {
  lp_node *node = NULL;
  lp_values *values = lp_values_new();
  open_engine();
  launch_text(echo_program);
  check_calls("echo/0");
  check_calls("near/0");
  FAILS(lp_run_node(run, "echo/1", &node), LP_NOT_FOUND, "echo/1");
  FAILS(lp_run_node(run, "echo/", &node), LP_NOT_FOUND, "no node");
  node = node_named("echo/0");
  FAILS(lp_node_call(node, NULL, NULL, 0, NULL, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_node_call(node, "", NULL, 0, NULL, NULL), LP_INVALID_ARGUMENT, "\"\"");
  FAILS(lp_node_call(node, "lp.eval", NULL, 0, NULL, NULL), LP_NOT_FOUND, "the engine's");
  OK(lp_push_array(values, 3));
  FAILS(lp_node_call(node, "echo", values, 0, NULL, NULL), LP_INVALID_ARGUMENT, "lacks 3");
  lp_values_free(values);
  lp_node_free(node);
  close_engine();
}

static void test_too_many_calls_are_refused(void) {
  answer got = {0};
  open_engine();
  launch_text(echo_program);
  lp_node *node = node_named("echo/0");
  lp_values *values = lp_values_new();
  OK(lp_push_number(values, 0.01));
  int sent = 0;
  while (lp_node_call(node, "slow", values, 0, keep_answer, &got) == LP_OK) sent++;
  CHECK(sent == 1024 && strstr(lp_message(), "is full"));
  POLL_UNTIL(got.count == sent);
  OK(lp_node_call_wait(node, "echo", NULL, 30, NULL));
  lp_values_free(values);
  lp_node_free(node);
  close_engine();
}

static void test_calls_under_way_are_told_when_the_engine_closes(void) {
  answer far = {0}, near = {0};
  open_engine();
  launch_text(echo_program);
  lp_node *there = node_named("echo/0"), *here = node_named("near/0");
  lp_values *values = lp_values_new();
  OK(lp_push_number(values, 60));
  OK(lp_node_call(there, "slow", values, 0, keep_answer, &far));
  OK(lp_node_call(here, "slow", values, 0, keep_answer, &near));
  OK(lp_poll(engine, 0.01));
  OK(lp_engine_close(engine));
  CHECK(far.count == 1 && far.status != LP_OK && near.count == 1 && near.status != LP_OK);
  lp_values_free(values);
  lp_node_free(there);
  lp_node_free(here);
  close_engine();
}

/* ---- host nodes ------------------------------------------------------------- */

typedef struct world {
  int64_t sum;
  lp_call *waiting[4];
  int count;
} world;

static void world_add(void *user, lp_call *call, lp_reader *arguments) {
  world *self = user;
  int64_t number;
  lp_values *results = lp_values_new();
  CHECK(strcmp(lp_call_node(call), "world/0") == 0 && strcmp(lp_call_method(call), "add") == 0);
  if (lp_read_integer(arguments, &number) != LP_OK) {
    OK(lp_call_fail(call, LP_INVALID_ARGUMENT, lp_message()));
  } else {
    self->sum += number;
    OK(lp_push_integer(results, self->sum));
    OK(lp_push_nil(results));
    OK(lp_call_return(call, results));
  }
  lp_values_free(results);
}

static void world_later(void *user, lp_call *call, lp_reader *arguments) {
  world *self = user;
  (void)arguments;
  CHECK(lp_call_wanted(call));
  self->waiting[self->count++] = call;
}

static void world_any(void *user, lp_call *call, lp_reader *arguments) {
  (void)user, (void)arguments;
  lp_values *results = lp_values_new();
  OK(lp_push_string(results, lp_call_method(call)));
  OK(lp_call_return(call, results));
  lp_values_free(results);
}

static void world_bad(void *user, lp_call *call, lp_reader *arguments) {
  (void)user, (void)arguments;
  lp_values *results = lp_values_new();
  OK(lp_push_array(results, 2));
  FAILS(lp_call_return(call, results), LP_INVALID_ARGUMENT, "lacks 2");
  lp_values_free(results);
}

static const lp_methods world_methods[] = {
    {"add", world_add}, {"later", world_later}, {"bad", world_bad}, {"*", world_any}, {NULL, NULL}};

static const char world_program[] = PROGRAM
    "local Player = {} Player.__index = Player "
    "function Player.new(world) return setmetatable({world = world}, Player) end "
    "function Player:run() "
    "  local world = self.world "
    "  assert(world:add(1) == 1) "
    "  assert(select('#', world:add(2)) == 2) "
    "  local ok, err = pcall(world.add, world, 'x') "
    "  assert(err.code == 'invalid_argument' and err.message:find 'expected an integer', err) "
    "  assert(err.node == 'world/0') "
    "  assert(world:anything() == 'anything') "
    "  ok, err = pcall(world.bad, world) assert(not ok and err.message:find 'lacks', err) "
    "  local list = lp.list_methods(world) assert(list[1] == '*' and #list == 4) "
    "  local hasty = lp.with(world, {timeout = 0.01}) "
    "  ok, err = pcall(hasty.later, hasty) assert(err.code == 'deadline_exceeded', err) "
    "  world.notify:add(39) "
    "  print(world:later()) "
    "end "
    "local world = program:add_node(lp.HostNode 'earth', 'world') "
    "program:add_node(lp.LuaClassNode(Player, world), 'player') "
    "return program";

static void test_a_host_node_answers_now_or_later(void) {
  world earth = {0};
  lp_values *results = lp_values_new();
  bool ended = false, failed = false;
  open_engine();
  OK(lp_host_node(engine, "earth", world_methods, &earth));
  FAILS(lp_host_node(engine, "earth", world_methods, &earth), LP_ALREADY_EXISTS, "earth");
  FAILS(lp_host_node(engine, "", world_methods, &earth), LP_INVALID_ARGUMENT, "empty");
  FAILS(lp_host_node(engine, "x", NULL, &earth), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_host_node(engine, "x", (lp_methods[]){{"m", NULL}, {NULL, NULL}}, NULL),
        LP_INVALID_ARGUMENT, "has no function");
  launch_text(world_program);
  POLL_UNTIL(earth.count == 2);
  CHECK(earth.sum == 42);
  CHECK(!lp_call_wanted(earth.waiting[0]) && lp_call_wanted(earth.waiting[1]));
  OK(lp_call_return(earth.waiting[0], NULL)); /* too late, and no harm */
  OK(lp_push_string(results, "at last"));
  OK(lp_call_return(earth.waiting[1], results));
  POLL_UNTIL(strstr(printed, "[player/0] at last\n"));
  OK(lp_run_ended(run, &ended, &failed));
  CHECK(!ended && !failed); /* the host node serves until the program stops */
  OK(lp_run_stop(run));
  OK(lp_run_wait(run, 30));
  OK(lp_run_ended(run, &ended, &failed));
  CHECK(ended && !failed);
  lp_values_free(results);
  close_engine();
}

static void test_a_call_may_be_answered_when_its_engine_is_gone(void) {
  world earth = {0};
  open_engine();
  OK(lp_host_node(engine, "earth", world_methods, &earth));
  launch_text(world_program);
  POLL_UNTIL(earth.count == 2);
  close_engine();
  CHECK(!lp_call_wanted(earth.waiting[1]) &&
        strcmp(lp_call_method(earth.waiting[1]), "later") == 0);
  OK(lp_call_return(earth.waiting[0], NULL));
  OK(lp_call_fail(earth.waiting[1], LP_ABORTED, "too late"));
}

/* ---- reloading -------------------------------------------------------------- */

static const char counter_program[] = PROGRAM
    "local log = {} "
    "local function say(n) return 'old ' .. n end "
    "local Counter = {} Counter.__index = Counter "
    "function Counter.new() return setmetatable({count = 0}, Counter) end "
    "function Counter:add() self.count = self.count + 1 log[#log + 1] = self.count return "
    "say(self.count), #log end "
    "function Counter:slow() local word = say(0) lp.sleep(0.2) return word .. self:add() end "
    "function Counter:gone() end "
    "program:add_node(lp.CourierNode(Counter), 'counter') "
    "program:add_node(lp.LuaNode(lp.wait_for_stop), 'plain') "
    "return program";

static const char better_program[] = PROGRAM
    "local log = {} "
    "local function say(n) return 'new ' .. n end "
    "local Counter = {} Counter.__index = Counter "
    "function Counter.new() return setmetatable({count = 100}, Counter) end "
    "function Counter:add() self.count = self.count + 10 log[#log + 1] = self.count return "
    "say(self.count), #log end "
    "function Counter:slow() return 'never' end "
    "function Counter:more() return 'more' end "
    "function Counter:__reload(old) self.told = old.gone ~= nil and old.more == nil end "
    "function Counter:was_told() return self.told and 1 or 0 end "
    "program:add_node(lp.CourierNode(Counter), 'counter') "
    "program:add_node(lp.CourierNode(Counter), 'another') "
    "return program";

static void call_text(lp_node *node, const char *method, const char *expected) {
  lp_values *results = lp_values_new();
  char text[64] = "";
  OK(lp_node_call_wait(node, method, NULL, 30, results));
  lp_reader reader = lp_values_read(results);
  OK(lp_read_string(&reader, text, sizeof text));
  if (strcmp(text, expected) != 0) fprintf(stderr, "got %s\n", text);
  CHECK(strcmp(text, expected) == 0);
  lp_values_free(results);
}

static char slow_words[64];

static void keep_words(void *user, const lp_error *error, lp_reader *results) {
  CHECK(!error);
  OK(lp_read_string(results, slow_words, sizeof slow_words));
  *(bool *)user = true;
}

static void test_nodes_get_new_code(void) {
  size_t nodes = 9;
  bool answered = false;
  static const char broken[] = "return lp.", raising[] = "error 'not yet'";
  open_engine();
  launch_text(counter_program);
  lp_node *node = node_named("counter/0");
  call_text(node, "add", "old 1");
  FAILS(lp_run_reload(run, broken, strlen(broken), &nodes), LP_INVALID_ARGUMENT, "test:1: ");
  CHECK(nodes == 0);
  FAILS(lp_run_reload(run, raising, strlen(raising), NULL), LP_INVALID_ARGUMENT, "not yet");
  FAILS(lp_run_reload(run, NULL, 0, NULL), LP_INVALID_ARGUMENT, "loaded from a text");
  FAILS(lp_run_reload(NULL, NULL, 0, NULL), LP_INVALID_ARGUMENT, "NULL");
  call_text(node, "add", "old 2");
  OK(lp_node_call(node, "slow", NULL, 30, keep_words, &answered));
  call_text(node, "add", "old 3"); /* it has begun */
  OK(lp_run_reload(run, better_program, strlen(better_program), &nodes));
  CHECK(nodes == 1);
  CHECK(strstr(lp_message(), "node another/0 is new") && strstr(lp_message(), "plain/0"));
  call_text(node, "add", "new 13"); /* its state is kept */
  POLL_UNTIL(answered);
  CHECK(strcmp(slow_words, "old 0new 23") == 0); /* the old method, calling a new one */
  call_text(node, "more", "more");
  FAILS(lp_node_call_wait(node, "gone", NULL, 30, NULL), LP_NOT_FOUND, "gone");
  lp_values *results = lp_values_new();
  int64_t number = 0;
  OK(lp_node_call_wait(node, "was_told", NULL, 30, results));
  lp_reader reader = lp_values_read(results);
  OK(lp_read_integer(&reader, &number));
  CHECK(number == 1);
  OK(lp_node_call_wait(node, "add", NULL, 30, results));
  reader = lp_values_read(results);
  OK(lp_read_skip(&reader));
  OK(lp_read_integer(&reader, &number));
  CHECK(number == 6); /* the table that the methods share is the one it was */
  lp_values_free(results);
  lp_node_free(node);
  close_engine();
}

int main(void) {
  RUN(test_nodes_are_called);
  RUN(test_too_many_calls_are_refused);
  RUN(test_calls_under_way_are_told_when_the_engine_closes);
  RUN(test_a_host_node_answers_now_or_later);
  RUN(test_a_call_may_be_answered_when_its_engine_is_gone);
  RUN(test_nodes_get_new_code);
  return TEST_END();
}
