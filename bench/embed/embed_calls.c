/* Calls between a host program and Lua nodes on its own thread, through lp.h: what bindings pay.
 *
 *   embed_calls [--mode host_to_lua|lua_to_host] [--window N] [--rounds N] [--pin CPU]
 *
 * host_to_lua: C calls a method and waits, or with a `window` polls for that many answers at once.
 * lua_to_host: a Lua node calls a method that C implements, one after the other. */
#define _GNU_SOURCE
#include "../floor.h"

#include "lp.h"

static const char script[] =
    "local lp = require 'lp' local program = lp.Program 'bench' "
    "local Node = {} Node.__index = Node "
    "function Node.new(host) return setmetatable({host = host}, Node) end "
    "function Node:echo(x) return x end "
    "function Node:drive(n) local host = self.host for i = 1, n do host:echo(i) end end "
    "local host = program:add_node(lp.HostNode 'bench', 'host') "
    "program:add_node(lp.CourierNode(Node, host):options{loop = 'host'}, 'node') "
    "return program";

static lp_engine *engine;
static lp_values *arguments, *results;
static long answered;

static void check(lp_status status) {
  if (status == LP_OK) return;
  fprintf(stderr, "embed_calls: %s\n", lp_message());
  exit(1);
}

static void on_answer(void *user, const lp_error *error, lp_reader *values) {
  int64_t number;
  (void)user;
  if (error || lp_read_integer(values, &number) != LP_OK) floor_die("an answer");
  answered++;
}

static void one_by_one(lp_node *node, long rounds) {
  for (long i = 0; i < rounds; i++) {
    int64_t number;
    lp_values_clear(arguments);
    check(lp_push_integer(arguments, i));
    check(lp_node_call_wait(node, "echo", arguments, 0, results));
    lp_reader reader = lp_values_read(results);
    if (lp_read_integer(&reader, &number) != LP_OK || number != i) floor_die("an answer");
  }
}

static void host_to_lua(lp_node *node, long rounds, long window) {
  long sent = 0;
  answered = 0;
  while (answered < rounds) {
    for (; sent < rounds && sent - answered < window; sent++) {
      lp_values_clear(arguments);
      check(lp_push_integer(arguments, sent));
      check(lp_node_call(node, "echo", arguments, 0, on_answer, NULL));
    }
    check(lp_poll(engine, 1));
  }
}

static void host_echo(void *user, lp_call *call, lp_reader *values) {
  int64_t number;
  (void)user;
  if (lp_read_integer(values, &number) != LP_OK) floor_die("an argument");
  lp_values_clear(results);
  check(lp_push_integer(results, number));
  check(lp_call_return(call, results));
}

static void lua_to_host(lp_node *node, long rounds) {
  lp_values_clear(arguments);
  check(lp_push_integer(arguments, rounds));
  check(lp_node_call_wait(node, "drive", arguments, 0, NULL));
}

int main(int argc, char **argv) {
  static const char *const known[] = {"--mode", "--window", NULL};
  static const lp_methods methods[] = {{"echo", host_echo}, {NULL, NULL}};
  floor_args args;
  floor_init(&args, argc, argv, "embed_calls", 300000, known);
  floor_pin(&args, 0);
  bool to_host = strcmp(floor_option(&args, "--mode", "host_to_lua"), "lua_to_host") == 0;
  long window = floor_number(&args, "--window", 1);
  lp_engine_options options;
  lp_program *program;
  lp_run *run;
  lp_node *node;
  arguments = lp_values_new();
  results = lp_values_new();
  lp_engine_options_init(&options);
  options.signals = true;
  check(lp_engine_open(&options, &engine));
  check(lp_host_node(engine, "bench", methods, NULL));
  check(lp_program_load_text(engine, "bench", script, sizeof script - 1, 0, NULL, &program));
  check(lp_program_launch(program, NULL, &run));
  check(lp_run_node(run, "node/0", &node));
  for (int i = 0; i < 2; i++) { /* the first round warms up */
    long rounds = i == 0 ? args.rounds / 10 + 1 : args.rounds;
    int64_t start = floor_now();
    if (to_host)
      lua_to_host(node, rounds);
    else if (window == 1)
      one_by_one(node, rounds);
    else
      host_to_lua(node, rounds, window);
    if (i == 1) floor_begin(&args, floor_now() - start, rounds);
  }
  printf(",\"mode\":\"%s\",\"window\":%ld", to_host ? "lua_to_host" : "host_to_lua", window);
  floor_end();
  lp_node_free(node);
  lp_program_free(program);
  check(lp_run_close(run));
  check(lp_engine_free(engine));
  return 0;
}
