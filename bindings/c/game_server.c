/* A game server: a world of its own in C, stepped 60 times a second, in which Lua scripts live.
 *
 * The world is a host node, so scripts call it as they call each other, and because they do so
 * within lp_poll, on this thread, its data has no lock. 200 NPCs run on this thread too, in at
 * most `budget` milliseconds of each tick; players run in a thread of their own.
 *
 *   game_server SCRIPT.lua [--seconds=5] [--seed=1] [--budget=2] [--npcs=200] [--players=20]
 *       [--rate=50] [--bad=loop,memory,pattern,raise] [--compare=ROUNDS] [--ticks=N]
 *
 * --compare plays control and bad scripts in turn, and prints both. --ticks plays that many ticks
 * as fast as they go, each to its end, and prints a sum of the world: the same for the same seed.
 */
#include <lp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TICKS_PER_SECOND = 60, SIZE = 200, ENTITIES = 2048, THINK_EVERY = 4, LATE_NS = 2000000 };

typedef struct entity {
  bool here;
  int x, y, hits;
  lp_call *turn; /* waits for its next turn */
} entity;

typedef struct world {
  entity entities[ENTITIES];
  int count, waiting;
  long tick, player_calls, failures;
  lp_values *results; /* used again for every answer */
  char failed[8][160];
} world;

/* Words of the command line. */
static struct {
  const char *script;
  double seconds, budget_ms;
  int compare;
  long seed, ticks;
  int npcs;
  const char *bad;
  const char *passed[16]; /* to the script */
  int passed_count;
} options;

static int64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t now_ns(void) {
  return clock_ns(CLOCK_MONOTONIC);
}

static void die(const char *what) {
  fprintf(stderr, "game_server: %s: %s\n", what, lp_message());
  exit(1);
}

/* ---- the world -------------------------------------------------------------- */

/* The entity whose id comes next, or NULL and the call has been refused. */
static entity *entity_of(world *game, lp_call *call, lp_reader *arguments) {
  int64_t id = -1;
  if (lp_read_integer(arguments, &id) == LP_OK && id >= 0 && id < ENTITIES)
    return &game->entities[id];
  lp_call_fail(call, LP_INVALID_ARGUMENT, "no such entity");
  return NULL;
}

static lp_values *fresh(world *game) {
  lp_values_clear(game->results);
  return game->results;
}

static int place_of(int64_t number) {
  return (int)((unsigned long)(number + options.seed) * 2654435761u % SIZE);
}

/* join(name, number) -> id, x, y */
static void world_join(void *user, lp_call *call, lp_reader *arguments) {
  world *game = (world *)user;
  entity *self;
  if (lp_read_skip(arguments) != LP_OK || !(self = entity_of(game, call, arguments))) return;
  int64_t id = self - game->entities;
  if (!self->here) game->count++;
  self->here = true;
  self->x = place_of(id);
  self->y = place_of(id * 7 + 3);
  lp_values *results = fresh(game);
  lp_push_integer(results, id);
  lp_push_integer(results, self->x);
  lp_push_integer(results, self->y);
  lp_call_return(call, results);
}

static int within(int value) {
  return value < 0 ? 0 : value >= SIZE ? SIZE - 1 : value;
}

/* move(id, dx, dy) -> x, y */
static void world_move(void *user, lp_call *call, lp_reader *arguments) {
  world *game = (world *)user;
  int64_t dx = 0, dy = 0;
  entity *self = entity_of(game, call, arguments);
  if (!self) return;
  if (self - game->entities >= 1000) game->player_calls++;
  lp_read_integer(arguments, &dx);
  lp_read_integer(arguments, &dy);
  self->x = within(self->x + (int)dx);
  self->y = within(self->y + (int)dy);
  lp_values *results = fresh(game);
  lp_push_integer(results, self->x);
  lp_push_integer(results, self->y);
  lp_call_return(call, results);
}

/* look(id, radius) -> the nearest other {id =, x =, y =}, or nil */
static void world_look(void *user, lp_call *call, lp_reader *arguments) {
  world *game = (world *)user;
  int64_t radius = 0;
  entity *self = entity_of(game, call, arguments), *found = NULL;
  if (!self) return;
  lp_read_integer(arguments, &radius);
  int best = (int)radius + 1;
  for (entity *each = game->entities; each < game->entities + ENTITIES; each++) {
    int distance = abs(each->x - self->x) + abs(each->y - self->y);
    if (each->here && each != self && distance < best) best = distance, found = each;
  }
  lp_values *results = fresh(game);
  if (found) {
    lp_push_map(results, 3);
    lp_push_string(results, "id");
    lp_push_integer(results, found - game->entities);
    lp_push_string(results, "x");
    lp_push_integer(results, found->x);
    lp_push_string(results, "y");
    lp_push_integer(results, found->y);
  } else {
    lp_push_nil(results);
  }
  lp_call_return(call, results);
}

static void world_hit(void *user, lp_call *call, lp_reader *arguments) {
  entity *target = entity_of((world *)user, call, arguments);
  if (!target) return;
  target->hits++;
  lp_call_return(call, NULL);
}

/* next_turn(id) -> tick, x, y: answered later, by give_turns */
static void world_next_turn(void *user, lp_call *call, lp_reader *arguments) {
  world *game = (world *)user;
  entity *self = entity_of(game, call, arguments);
  if (!self) return;
  if (self->turn) lp_call_fail(self->turn, LP_ABORTED, "another call waits for this turn");
  if (!self->turn) game->waiting++;
  self->turn = call;
}

static const lp_methods world_methods[] = {{"join", world_join},           {"move", world_move},
                                           {"look", world_look},           {"hit", world_hit},
                                           {"next_turn", world_next_turn}, {NULL, NULL}};

/* It is the turn of every THINK_EVERYth entity. */
static void give_turns(world *game) {
  for (int i = (int)(game->tick % THINK_EVERY); i < ENTITIES; i += THINK_EVERY) {
    entity *self = &game->entities[i];
    if (!self->turn) continue;
    lp_values *results = fresh(game);
    lp_push_integer(results, game->tick);
    lp_push_integer(results, self->x);
    lp_push_integer(results, self->y);
    lp_call *call = self->turn;
    self->turn = NULL;
    game->waiting--;
    lp_call_return(call, results);
  }
}

static void drop_turns(world *game) {
  for (int i = 0; i < ENTITIES; i++) {
    lp_call *call = game->entities[i].turn;
    game->entities[i].turn = NULL;
    if (call) lp_call_fail(call, LP_CANCELLED, "the game is over");
  }
}

static unsigned long sum_of(const world *game) {
  unsigned long sum = 1469598103934665603u;
  for (int i = 0; i < ENTITIES; i++) {
    const entity *self = &game->entities[i];
    if (self->here)
      sum = (sum ^ (unsigned long)(self->x * 1000003 + self->y * 1009 + self->hits + i)) *
            1099511628211u;
  }
  return sum;
}

/* ---- the engine around it --------------------------------------------------- */

static void on_output(void *user, lp_output_kind kind, const char *node, const char *text,
                      size_t length) {
  world *game = (world *)user;
  (void)length;
  if (kind != LP_OUTPUT_ERROR || !strstr(text, "failed")) return;
  if (game->failures < 8)
    snprintf(game->failed[game->failures], sizeof game->failed[0], "%s: %.*s", node,
             (int)strcspn(text, "\n"), text);
  game->failures++;
}

typedef struct session {
  world game;
  lp_engine *engine;
  lp_run *run;
} session;

static session *session_open(const char *bad) {
  char bad_flag[128];
  session *self = (session *)calloc(1, sizeof *self);
  lp_engine_options engine;
  lp_launch_options launch;
  lp_program *program;
  if (!self || !(self->game.results = lp_values_new())) exit(1);
  lp_engine_options_init(&engine);
  engine.output = on_output;
  engine.output_user = &self->game;
  engine.signals = true; /* this program has no other use for SIGURG */
  if (lp_engine_open(&engine, &self->engine)) die("open");
  if (lp_host_node(self->engine, "world", world_methods, &self->game)) die("world");
  snprintf(bad_flag, sizeof bad_flag, "--bad=%s", bad);
  options.passed[options.passed_count] = bad_flag;
  if (lp_program_load_file(self->engine, options.script, options.passed_count + 1, options.passed,
                           &program))
    die("load");
  lp_launch_options_init(&launch);
  launch.seed = options.seed;
  if (lp_program_launch(program, &launch, &self->run)) die("launch");
  lp_program_free(program);
  while (self->game.waiting < options.npcs) /* all have joined, and wait for their turn */
    if (lp_wait(self->engine, 10)) die("start");
  self->game.player_calls = 0;
  return self;
}

static void session_close(session *self) {
  drop_turns(&self->game);
  if (lp_run_close(self->run)) die("close");
  drop_turns(&self->game); /* a script may have asked for another turn before it was stopped */
  if (lp_engine_free(self->engine)) die("close");
  lp_values_free(self->game.results);
  free(self);
}

/* ---- playing ---------------------------------------------------------------- */

typedef struct figures {
  int64_t *work, *cpu, *jitter; /* ns of each tick; cpu: without what others took meanwhile */
  long count, size, late;
  long calls;
  double seconds;
} figures;

static int by_size(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return left < right ? -1 : left > right;
}

static double quantile_ms(int64_t *list, long count, double which) {
  if (count == 0) return 0;
  qsort(list, (size_t)count, sizeof *list, by_size);
  long at = (long)(which * (double)count);
  return (double)list[at < count ? at : count - 1] * 1e-6;
}

static void sleep_until(int64_t due) {
  struct timespec until;
  until.tv_sec = (time_t)(due / 1000000000);
  until.tv_nsec = (long)(due % 1000000000);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) continue;
}

static int64_t *grow(int64_t *list, long size) {
  int64_t *grown = (int64_t *)realloc(list, (size_t)size * sizeof *grown);
  if (!grown) exit(1);
  return grown;
}

/* Plays `seconds` of real time. */
static void play(session *self, double seconds, figures *out) {
  const int64_t step = 1000000000 / TICKS_PER_SECOND;
  int64_t begin = now_ns(), due = begin;
  long calls = self->game.player_calls, ticks = (long)(seconds * (double)TICKS_PER_SECOND);
  for (long i = 0; i < ticks; i++, due += step) {
    sleep_until(due);
    int64_t start = now_ns(), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    self->game.tick++;
    give_turns(&self->game);
    if (lp_poll(self->engine, options.budget_ms * 1e-3)) die("poll");
    int64_t end = now_ns();
    cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
    if (out->count == out->size) {
      out->size = out->size ? out->size * 2 : 1024;
      out->work = grow(out->work, out->size);
      out->cpu = grow(out->cpu, out->size);
      out->jitter = grow(out->jitter, out->size);
    }
    out->work[out->count] = end - start;
    out->cpu[out->count] = cpu;
    out->jitter[out->count++] = start - due;
    out->late += start - due > LATE_NS;
  }
  out->calls += self->game.player_calls - calls;
  out->seconds += (double)(now_ns() - begin) * 1e-9;
}

static void report(const char *name, figures *got) {
  printf("%s: %ld ticks in %.2f s (%.1f Hz), %ld begun more than %d ms late\n", name, got->count,
         got->seconds, (double)got->count / got->seconds, got->late, LATE_NS / 1000000);
  printf("%s: scripts p50 %.2f ms, p99 %.2f ms, most %.2f ms of a budget of %.2f ms\n", name,
         quantile_ms(got->work, got->count, 0.5), quantile_ms(got->work, got->count, 0.99),
         quantile_ms(got->work, got->count, 1), options.budget_ms);
  printf("%s: scripts without other processes p50 %.2f ms, p99 %.2f ms, most %.2f ms\n", name,
         quantile_ms(got->cpu, got->count, 0.5), quantile_ms(got->cpu, got->count, 0.99),
         quantile_ms(got->cpu, got->count, 1));
  printf("%s: start of ticks p50 %.2f ms, p99 %.2f ms late\n", name,
         quantile_ms(got->jitter, got->count, 0.5), quantile_ms(got->jitter, got->count, 0.99));
  printf("%s: %.0f calls/s from players\n", name, (double)got->calls / got->seconds);
  free(got->work);
  free(got->cpu);
  free(got->jitter);
}

static void report_failures(const world *game) {
  for (long i = 0; i < game->failures && i < 8; i++) printf("failed: %s\n", game->failed[i]);
}

static void play_and_report(void) {
  figures got;
  session *self = session_open(options.bad);
  memset(&got, 0, sizeof got);
  play(self, options.seconds, &got);
  report("game", &got);
  report_failures(&self->game);
  session_close(self);
}

/* Control and bad scripts in turn, so that whatever else the machine does meets both. */
static void compare(void) {
  figures control, bad;
  memset(&control, 0, sizeof control);
  memset(&bad, 0, sizeof bad);
  for (int round = 0; round < options.compare; round++) {
    session *self = session_open("");
    play(self, options.seconds, &control);
    session_close(self);
    self = session_open(options.bad);
    play(self, options.seconds, &bad);
    if (round == 0) report_failures(&self->game);
    session_close(self);
  }
  report("control", &control);
  report("bad", &bad);
}

/* Every tick to its end: when all NPCs wait again. */
static void play_ticks(void) {
  session *self = session_open("");
  world *game = &self->game;
  for (long i = 0; i < options.ticks; i++) {
    game->tick++;
    give_turns(game);
    while (game->waiting < options.npcs)
      if (lp_wait(self->engine, 10)) die("tick");
  }
  printf("sum after %ld ticks of seed %ld: %016lx\n", options.ticks, options.seed, sum_of(game));
  session_close(self);
}

/* ---- the command line ------------------------------------------------------- */

static const char *value_of(const char *word, const char *name) {
  size_t length = strlen(name);
  return strncmp(word, name, length) == 0 && word[length] == '=' ? word + length + 1 : NULL;
}

static void take_word(const char *word) {
  const char *value;
  if ((value = value_of(word, "--seconds")))
    options.seconds = atof(value);
  else if ((value = value_of(word, "--budget")))
    options.budget_ms = atof(value);
  else if ((value = value_of(word, "--compare")))
    options.compare = atoi(value);
  else if ((value = value_of(word, "--seed")))
    options.seed = atol(value);
  else if ((value = value_of(word, "--ticks")))
    options.ticks = atol(value);
  else if ((value = value_of(word, "--bad")))
    options.bad = value;
  else if (options.passed_count < 14)
    options.passed[options.passed_count++] = word;
  if ((value = value_of(word, "--npcs"))) options.npcs = atoi(value);
}

int main(int argc, char **argv) {
  options.seconds = 5;
  options.budget_ms = 2;
  options.seed = 1;
  options.npcs = 200;
  options.bad = "";
  if (argc < 2) {
    fprintf(stderr, "usage: game_server SCRIPT.lua [options, see the top of game_server.c]\n");
    return 2;
  }
  options.script = argv[1];
  for (int i = 2; i < argc; i++) take_word(argv[i]);
  if (options.ticks > 0) {
    options.passed[options.passed_count++] = "--players=0";
    play_ticks();
  } else if (options.compare > 0) {
    compare();
  } else {
    play_and_report();
  }
  return 0;
}
