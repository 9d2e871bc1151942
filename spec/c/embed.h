/* What the tests of lp.h share: an engine, a run of it, and what they say. */
#ifndef LP_SPEC_EMBED_H
#define LP_SPEC_EMBED_H
#include "lp.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "test.h"

/* ThreadSanitizer holds signals back as long as code computes. */
#ifdef __SANITIZE_THREAD__
enum { SIGNALS_COME = 0 };
#else
enum { SIGNALS_COME = 1 };
#endif

static lp_engine *engine;
static lp_run *run;
static char printed[4096]; /* "[node] text\n", … */

static inline void on_output(void *user, lp_output_kind kind, const char *node, const char *text,
                             size_t length) {
  size_t used = strlen(printed);
  (void)user;
  CHECK(strlen(text) == length);
  snprintf(printed + used, sizeof printed - used, "[%s] %s%s\n", node,
           kind == LP_OUTPUT_WARNING ? "warning: " : "", text);
}

#define OK(call)                                                                               \
  do {                                                                                         \
    lp_status ok_status = (call);                                                              \
    if (ok_status != LP_OK) fprintf(stderr, "%s: %s\n", lp_strerror(ok_status), lp_message()); \
    CHECK(ok_status == LP_OK);                                                                 \
  } while (0)

/* The status, and words that contain `text`. */
#define FAILS(call, wanted, text)                                               \
  do {                                                                          \
    lp_status fails_status = (call);                                            \
    if (fails_status != (wanted) || !strstr(lp_message(), text))                \
      fprintf(stderr, "got %s: %s\n", lp_strerror(fails_status), lp_message()); \
    CHECK(fails_status == (wanted) && strstr(lp_message(), text));              \
  } while (0)

/* Polls until the condition holds; a test that waits for ever has failed. */
#define POLL_UNTIL(condition)                                \
  do {                                                       \
    int64_t poll_limit = clock_now() + INT64_C(30000000000); \
    while (!(condition) && clock_now() < poll_limit) {       \
      OK(lp_poll(engine, 0.01));                             \
      usleep(200);                                           \
    }                                                        \
    CHECK(condition);                                        \
  } while (0)

static inline void open_engine(void) {
  lp_engine_options options;
  lp_engine_options_init(&options);
  options.output = on_output;
  *printed = 0;
  OK(lp_engine_open(&options, &engine));
}

static inline void launch_text(const char *text) {
  lp_program *program = NULL;
  OK(lp_program_load_text(engine, "test", text, strlen(text), 0, NULL, &program));
  lp_launch_options options;
  lp_launch_options_init(&options);
  options.notice = 0.2;
  OK(lp_program_launch(program, &options, &run));
  lp_program_free(program);
}

static inline void close_engine(void) {
  OK(lp_run_close(run));
  run = NULL;
  OK(lp_engine_free(engine));
  engine = NULL;
}

static inline lp_node *node_named(const char *name) {
  lp_node *node = NULL;
  OK(lp_run_node(run, name, &node));
  return node;
}

#define PROGRAM "local lp = require 'lp' local program = lp.Program 'test' "

static const char echo_program[] = PROGRAM
    "local Echo = {} Echo.__index = Echo "
    "function Echo.new() return setmetatable({}, Echo) end "
    "function Echo:echo(...) return ... end "
    "function Echo:fail(code) lp.error(code or 'unknown', 'broken', {1}) end "
    "function Echo:forever() while true do end end "
    "function Echo:slow(s) lp.sleep(s) return s end "
    "function Echo:call(client, ...) return client:echo(...) end "
    "program:add_node(lp.CourierNode(Echo), 'echo') "
    "program:add_node(lp.CourierNode(Echo):options{loop = 'host'}, 'near') "
    "return program";

typedef struct answer {
  int count;
  lp_status status;
  char code[32], message[256], node[32];
  bool traced;
  int64_t first;
  size_t results;
} answer;

static inline void keep_answer(void *user, const lp_error *error, lp_reader *results) {
  answer *to = user;
  to->count++;
  to->status = error ? error->status : LP_OK;
  if (error) {
    snprintf(to->code, sizeof to->code, "%s", error->code);
    snprintf(to->message, sizeof to->message, "%s", error->message);
    snprintf(to->node, sizeof to->node, "%s", error->node);
    to->traced = strstr(error->traceback, "traceback") != NULL;
  }
  to->results = lp_read_left(results);
  if (lp_read_kind(results) == LP_INTEGER) lp_read_integer(results, &to->first);
  FAILS(lp_poll(engine, 0), LP_FAILED_PRECONDITION, "within lp_poll");
  FAILS(lp_wait(engine, 0), LP_FAILED_PRECONDITION, "within lp_poll");
  FAILS(lp_engine_close(engine), LP_FAILED_PRECONDITION, "within lp_poll");
}

#endif
