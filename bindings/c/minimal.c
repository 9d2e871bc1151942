/* The smallest host: loads a program, calls one of its nodes, ends. */
#include <lp.h>
#include <stdio.h>

static const char script[] =
    "local lp = require 'lp'\n"
    "local Greeter = {}\n"
    "Greeter.__index = Greeter\n"
    "function Greeter.new(word) return setmetatable({word = word}, Greeter) end\n"
    "function Greeter:greet(name) return self.word .. ', ' .. name .. '!' end\n"
    "local program = lp.Program 'greeter'\n"
    "program:add_node(lp.CourierNode(Greeter, 'Hello'), 'greeter')\n"
    "return program\n";

int main(void) {
  lp_engine *engine = NULL;
  lp_program *program = NULL;
  lp_run *run = NULL;
  lp_node *greeter = NULL;
  lp_values *given = lp_values_new(), *got = lp_values_new();
  char text[64];
  lp_status status = lp_engine_open(NULL, &engine);
  if (!status)
    status = lp_program_load_text(engine, "greeter", script, sizeof script - 1, 0, NULL, &program);
  if (!status) status = lp_program_launch(program, NULL, &run);
  if (!status) status = lp_run_node(run, "greeter/0", &greeter);
  if (!status) status = lp_push_string(given, "world");
  if (!status) status = lp_node_call_wait(greeter, "greet", given, 10, got);
  lp_reader results = lp_values_read(got);
  if (!status) status = lp_read_string(&results, text, sizeof text);
  if (!status) puts(text);
  if (status) fprintf(stderr, "minimal: %s\n", lp_message());
  lp_values_free(given);
  lp_values_free(got);
  lp_node_free(greeter);
  lp_program_free(program);
  lp_run_close(run);
  lp_engine_free(engine);
  return status ? 1 : 0;
}
