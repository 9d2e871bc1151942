/* A discrete simulation: thousands of agents in a few Lua interpreters, stepped in lock-step by
 * this program, which carries what crosses the borders between them.
 *
 *   sim_server SCRIPT.lua [--agents=10000] [--workers=4] [--steps=100] [--seed=1]
 *
 * Prints agents stepped per second, and a sum that is the same for the same seed. */
#include <lp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORKERS_MAX = 64 };

typedef struct worker {
  lp_node *node;
  int64_t ill, first, last; /* after its last step */
} worker;

typedef struct simulation {
  lp_engine *engine;
  lp_run *run;
  worker workers[WORKERS_MAX];
  int count, answered;
  unsigned long sum;
} simulation;

static void die(const char *what, const char *why) {
  fprintf(stderr, "sim_server: %s: %s\n", what, why);
  exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* ---- stepping --------------------------------------------------------------- */

static simulation sim;

static void on_stepped(void *user, const lp_error *error, lp_reader *results) {
  worker *self = (worker *)user;
  if (error) die("step", error->message);
  if (lp_read_integer(results, &self->ill) || lp_read_integer(results, &self->first) ||
      lp_read_integer(results, &self->last))
    die("step", lp_message());
  sim.answered++;
}

/* All workers at once; the step is over when the last one is. */
static int64_t step(lp_values *arguments) {
  int64_t ill = 0, first[WORKERS_MAX], last[WORKERS_MAX];
  for (int i = 0; i < sim.count; i++) {
    first[i] = sim.workers[i].first;
    last[i] = sim.workers[i].last;
  }
  sim.answered = 0;
  for (int i = 0; i < sim.count; i++) {
    lp_values_clear(arguments);
    lp_push_integer(arguments, last[(i + sim.count - 1) % sim.count]);
    lp_push_integer(arguments, first[(i + 1) % sim.count]);
    if (lp_node_call(sim.workers[i].node, "step", arguments, 60, on_stepped, &sim.workers[i]))
      die("call", lp_message());
  }
  while (sim.answered < sim.count)
    if (lp_wait(sim.engine, 60)) die("wait", lp_message());
  for (int i = 0; i < sim.count; i++) ill += sim.workers[i].ill;
  sim.sum = (sim.sum ^ (unsigned long)ill) * 1099511628211u;
  return ill;
}

/* ---- the engine around it --------------------------------------------------- */

static void on_output(void *user, lp_output_kind kind, const char *node, const char *text,
                      size_t length) {
  (void)user, (void)kind, (void)length;
  fprintf(stderr, "[%s] %s\n", node, text);
}

static void open_simulation(const char *script, int count, const char *const *words, long seed) {
  lp_engine_options engine;
  lp_launch_options launch;
  lp_program *program;
  lp_engine_options_init(&engine);
  engine.output = on_output;
  engine.signals = true; /* agents compute at full speed */
  if (lp_engine_open(&engine, &sim.engine)) die("open", lp_message());
  if (lp_program_load_file(sim.engine, script, count, words, &program)) die("load", lp_message());
  lp_launch_options_init(&launch);
  launch.seed = seed;
  if (lp_program_launch(program, &launch, &sim.run)) die("launch", lp_message());
  lp_program_free(program);
  for (int i = 0; i < sim.count; i++) {
    char name[32];
    snprintf(name, sizeof name, "worker/%d", i);
    if (lp_run_node(sim.run, name, &sim.workers[i].node)) die("node", lp_message());
  }
}

static void close_simulation(void) {
  for (int i = 0; i < sim.count; i++) lp_node_free(sim.workers[i].node);
  if (lp_run_close(sim.run) || lp_engine_free(sim.engine)) die("close", lp_message());
}

static long number_of(const char *word, const char *name, long otherwise) {
  size_t length = strlen(name);
  return strncmp(word, name, length) == 0 && word[length] == '=' ? atol(word + length + 1)
                                                                 : otherwise;
}

int main(int argc, char **argv) {
  long agents = 10000, steps = 100, seed = 1;
  const char *words[16];
  int count = 0;
  if (argc < 2) {
    fprintf(stderr, "usage: sim_server SCRIPT.lua [options, see the top of sim_server.c]\n");
    return 2;
  }
  sim.count = 4;
  for (int i = 2; i < argc; i++) {
    agents = number_of(argv[i], "--agents", agents);
    sim.count = (int)number_of(argv[i], "--workers", sim.count);
    steps = number_of(argv[i], "--steps", steps);
    seed = number_of(argv[i], "--seed", seed);
    bool ours = strncmp(argv[i], "--steps", 7) == 0 || strncmp(argv[i], "--seed", 6) == 0;
    if (!ours && count < 16) words[count++] = argv[i];
  }
  if (sim.count < 1 || sim.count > WORKERS_MAX || agents < sim.count)
    die("options", "1 to 64 workers, and no fewer agents");
  open_simulation(argv[1], count, words, seed);
  lp_values *arguments = lp_values_new();
  if (!arguments) die("options", "out of memory");
  int64_t ill = step(arguments); /* the workers are up */
  double begin = now();
  for (long i = 1; i < steps; i++) ill = step(arguments);
  double seconds = now() - begin;
  printf("%ld agents, %d workers, %ld steps: %.0f agents/s, %.2f ms a step\n", agents, sim.count,
         steps, (double)agents * (double)(steps - 1) / seconds,
         seconds * 1e3 / (double)(steps - 1));
  printf("%lld ill at the end; sum of seed %ld: %016lx\n", (long long)ill, seed, sim.sum);
  lp_values_free(arguments);
  close_simulation();
  return 0;
}
