/* The engine as a library (lp.h): every function, also used wrongly; host nodes; the budget of
 * lp_poll; several engines and threads; starting and stopping without a leak. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "lp.h"

#include <dirent.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "test.h"

/* ThreadSanitizer holds signals back as long as code computes. */
#ifdef __SANITIZE_THREAD__
enum { SIGNALS_COME = 0 };
#else
enum { SIGNALS_COME = 1 };
#endif

/* ---- helpers ---------------------------------------------------------------- */

static lp_engine *engine;
static lp_run *run;
static char printed[4096]; /* "[node] text\n", … */

static void on_output(void *user, lp_output_kind kind, const char *node, const char *text,
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

static void open_engine(void) {
  lp_engine_options options;
  lp_engine_options_init(&options);
  options.output = on_output;
  *printed = 0;
  OK(lp_engine_open(&options, &engine));
}

static void launch_text(const char *text) {
  lp_program *program = NULL;
  OK(lp_program_load_text(engine, "test", text, strlen(text), 0, NULL, &program));
  lp_launch_options options;
  lp_launch_options_init(&options);
  options.notice = 0.2;
  OK(lp_program_launch(program, &options, &run));
  lp_program_free(program);
}

static void close_engine(void) {
  OK(lp_run_close(run));
  run = NULL;
  OK(lp_engine_free(engine));
  engine = NULL;
}

static lp_node *node_named(const char *name) {
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

/* ---- values ----------------------------------------------------------------- */

static void test_values_are_read_as_they_were_pushed(void) {
  lp_values *values = lp_values_new();
  OK(lp_push_nil(values));
  OK(lp_push_boolean(values, true));
  OK(lp_push_integer(values, INT64_MIN));
  OK(lp_push_number(values, 3.0));
  OK(lp_push_string(values, "text"));
  OK(lp_push_bytes(values, "a\0\xff", 3));
  OK(lp_push_array(values, 2));
  OK(lp_push_integer(values, 1));
  OK(lp_push_map(values, 1));
  OK(lp_push_string(values, "key"));
  OK(lp_push_integer(values, 7));
  OK(lp_push_map(values, 0));
  CHECK(lp_values_count(values) == 8);
  lp_reader reader = lp_values_read(values), array, map;
  bool yes = false;
  int64_t integer = 0;
  double number = 0;
  char text[8];
  const char *bytes;
  size_t length;
  OK(lp_read_nil(&reader));
  OK(lp_read_boolean(&reader, &yes));
  CHECK(yes);
  OK(lp_read_integer(&reader, &integer));
  CHECK(integer == INT64_MIN);
  CHECK(lp_read_kind(&reader) == LP_NUMBER);
  lp_reader again = reader;
  OK(lp_read_integer(&again, &integer));
  CHECK(integer == 3);
  OK(lp_read_number(&reader, &number));
  CHECK(number == 3.0);
  OK(lp_read_string(&reader, text, sizeof text));
  CHECK(strcmp(text, "text") == 0);
  FAILS(lp_read_string(&reader, text, sizeof text), LP_OUT_OF_RANGE, "byte 0");
  OK(lp_read_bytes(&reader, &bytes, &length));
  CHECK(length == 3 && memcmp(bytes, "a\0\xff", 3) == 0);
  again = reader;
  OK(lp_read_skip(&again));
  CHECK(lp_read_kind(&again) == LP_MAP);
  OK(lp_read_array(&reader, &array));
  CHECK(lp_read_left(&array) == 2);
  OK(lp_read_number(&array, &number));
  OK(lp_read_map(&array, &map));
  CHECK(lp_read_left(&map) == 2);
  OK(lp_read_string(&map, text, sizeof text));
  OK(lp_read_integer(&map, &integer));
  CHECK(integer == 7 && lp_read_kind(&map) == LP_END && lp_read_kind(&array) == LP_END);
  OK(lp_read_map(&reader, &map));
  CHECK(lp_read_left(&map) == 0 && lp_read_left(&reader) == 0);
  FAILS(lp_read_nil(&reader), LP_INVALID_ARGUMENT, "value 9: expected nil, got no further value");
  lp_values_clear(values);
  CHECK(lp_values_count(values) == 0);
  lp_values_free(values);
}

static void test_values_used_wrongly(void) {
  lp_values *values = lp_values_new();
  lp_reader reader = lp_values_read(values);
  int64_t integer;
  FAILS(lp_push_nil(NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_push_boolean(NULL, true), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_push_integer(NULL, 1), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_push_number(NULL, 1), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_push_string(NULL, "x"), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_push_string(values, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_push_bytes(values, NULL, 1), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_push_array(NULL, 1), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_push_map(NULL, 1), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_push_array(values, SIZE_MAX), LP_INVALID_ARGUMENT, "too many");
  FAILS(lp_push_node(values, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_push_next(values, NULL), LP_INVALID_ARGUMENT, "no further value");
  FAILS(lp_read_nil(NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_read_boolean(NULL, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_read_integer(NULL, &integer), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_read_integer(&reader, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_read_number(&reader, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_read_bytes(&reader, NULL, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_read_string(&reader, NULL, 0), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_read_array(&reader, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_read_map(&reader, &reader), LP_INVALID_ARGUMENT, "expected a map");
  FAILS(lp_read_skip(&reader), LP_INVALID_ARGUMENT, "expected a value");
  CHECK(lp_read_kind(NULL) == LP_END && lp_read_left(NULL) == 0 && lp_values_count(NULL) == 0);
  OK(lp_push_string(values, "x"));
  reader = lp_values_read(values);
  FAILS(lp_read_integer(&reader, &integer), LP_INVALID_ARGUMENT,
        "value 1: expected an integer, got string");
  for (int i = 0; i < 200; i++) OK(lp_push_array(values, 1));
  FAILS(lp_push_array(values, 1), LP_INVALID_ARGUMENT, "200 deep");
  lp_values_clear(NULL);
  lp_values_free(NULL);
  lp_values_free(values);
}

/* ---- engines ---------------------------------------------------------------- */

static void *use_elsewhere(void *argument) {
  lp_values *values = lp_values_new();
  int fd;
  bool ended;
  lp_node *node = NULL;
  lp_program *program = NULL;
  FAILS(lp_poll(argument, 0), LP_FAILED_PRECONDITION, "another thread");
  FAILS(lp_wait(argument, 0), LP_FAILED_PRECONDITION, "another thread");
  FAILS(lp_fd(argument, &fd), LP_FAILED_PRECONDITION, "another thread");
  FAILS(lp_engine_close(argument), LP_FAILED_PRECONDITION, "another thread");
  FAILS(lp_engine_free(argument), LP_FAILED_PRECONDITION, "another thread");
  FAILS(lp_program_load_text(argument, "x", "", 0, 0, NULL, &program), LP_FAILED_PRECONDITION,
        "another thread");
  FAILS(lp_run_stop(run), LP_FAILED_PRECONDITION, "another thread");
  FAILS(lp_run_wait(run, 0), LP_FAILED_PRECONDITION, "another thread");
  FAILS(lp_run_ended(run, &ended, NULL), LP_FAILED_PRECONDITION, "another thread");
  FAILS(lp_run_close(run), LP_FAILED_PRECONDITION, "another thread");
  FAILS(lp_run_node(run, "echo/0", &node), LP_FAILED_PRECONDITION, "another thread");
  lp_values_free(values);
  return NULL;
}

static void test_an_engine_belongs_to_its_thread(void) {
  pthread_t thread;
  open_engine();
  launch_text(echo_program);
  CHECK(pthread_create(&thread, NULL, use_elsewhere, engine) == 0);
  pthread_join(thread, NULL);
  close_engine();
}

static void *adopt_and_use(void *argument) {
  (void)argument;
  OK(lp_engine_adopt(engine));
  lp_node *node = node_named("echo/0");
  OK(lp_node_call_wait(node, "echo", NULL, 30, NULL));
  lp_node_free(node);
  return NULL;
}

static void test_another_thread_can_take_an_engine_over(void) {
  pthread_t thread;
  open_engine();
  launch_text(echo_program);
  CHECK(pthread_create(&thread, NULL, adopt_and_use, NULL) == 0);
  pthread_join(thread, NULL);
  FAILS(lp_poll(engine, 0), LP_FAILED_PRECONDITION, "another thread");
  FAILS(lp_engine_adopt(NULL), LP_INVALID_ARGUMENT, "NULL");
  OK(lp_engine_adopt(engine));
  close_engine();
}

static void nothing(lp_engine *self, void *user) {
  (void)self;
  ++*(int *)user;
}

static void test_a_closed_engine_refuses(void) {
  int fd, count = 0;
  bool ended;
  lp_program *program = NULL, *none = NULL;
  lp_node *other = NULL;
  lp_values *values = lp_values_new();
  open_engine();
  OK(lp_program_load_text(engine, "test", echo_program, strlen(echo_program), 0, NULL, &program));
  OK(lp_program_launch(program, NULL, &run));
  lp_node *node = node_named("echo/0");
  OK(lp_engine_close(engine));
  OK(lp_engine_close(engine));
  FAILS(lp_poll(engine, 0), LP_FAILED_PRECONDITION, "closed");
  FAILS(lp_wait(engine, 0), LP_FAILED_PRECONDITION, "closed");
  FAILS(lp_fd(engine, &fd), LP_FAILED_PRECONDITION, "closed");
  FAILS(lp_post(engine, nothing, &count), LP_FAILED_PRECONDITION, "closed");
  FAILS(lp_host_node(engine, "x", (lp_methods[]){{NULL, NULL}}, NULL), LP_FAILED_PRECONDITION,
        "closed");
  FAILS(lp_program_load_file(engine, "x", 0, NULL, &none), LP_FAILED_PRECONDITION, "closed");
  FAILS(lp_run_stop(run), LP_FAILED_PRECONDITION, "closed");
  FAILS(lp_run_wait(run, 0), LP_FAILED_PRECONDITION, "closed");
  FAILS(lp_run_ended(run, &ended, NULL), LP_FAILED_PRECONDITION, "closed");
  FAILS(lp_run_on_end(run, NULL, NULL), LP_FAILED_PRECONDITION, "closed");
  FAILS(lp_run_node(run, "echo/0", &other), LP_FAILED_PRECONDITION, "closed");
  FAILS(lp_node_call(node, "echo", NULL, 0, NULL, NULL), LP_FAILED_PRECONDITION, "closed");
  FAILS(lp_node_notify(node, "echo", NULL), LP_FAILED_PRECONDITION, "closed");
  FAILS(lp_node_call_wait(node, "echo", NULL, 0, NULL), LP_FAILED_PRECONDITION, "closed");
  FAILS(lp_push_node(values, node), LP_FAILED_PRECONDITION, "closed");
  CHECK(lp_node_pending(node) == 0 && strcmp(lp_node_name(node), "echo/0") == 0);
  OK(lp_engine_free(engine));
  FAILS(lp_node_notify(node, "echo", NULL), LP_FAILED_PRECONDITION, "closed");
  lp_node_free(node);
  lp_program_free(program);
  OK(lp_run_close(run));
  lp_values_free(values);
  run = NULL;
  engine = NULL;
}

static void test_null_is_refused(void) {
  lp_engine_options options = {0};
  lp_node *node;
  lp_run *other;
  bool ended;
  FAILS(lp_engine_open(NULL, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_engine_open(&options, &engine), LP_INVALID_ARGUMENT, "lp_engine_options_init");
  CHECK(!engine);
  FAILS(lp_engine_close(NULL), LP_INVALID_ARGUMENT, "NULL");
  OK(lp_engine_free(NULL));
  FAILS(lp_poll(NULL, 0), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_wait(NULL, 0), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_fd(NULL, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_post(NULL, nothing, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_program_load_file(NULL, "x", 0, NULL, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_program_launch(NULL, NULL, &other), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_run_stop(NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_run_wait(NULL, 0), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_run_ended(NULL, &ended, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_run_on_end(NULL, NULL, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_run_node(NULL, "x", &node), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_node_call(NULL, "x", NULL, 0, NULL, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_node_notify(NULL, "x", NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_node_call_wait(NULL, "x", NULL, 0, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_read_node(NULL, NULL, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_host_node(NULL, "x", NULL, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_call_return(NULL, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_call_fail(NULL, LP_UNKNOWN, NULL), LP_INVALID_ARGUMENT, "NULL");
  OK(lp_run_close(NULL));
  lp_program_free(NULL);
  lp_node_free(NULL);
  lp_engine_options_init(NULL);
  lp_launch_options_init(NULL);
  CHECK(!lp_run_id(NULL) && !lp_node_name(NULL) && !lp_call_method(NULL) && !lp_call_node(NULL));
  CHECK(!lp_call_wanted(NULL) && lp_node_pending(NULL) == 0);
  CHECK(strcmp(lp_version(), LP_VERSION) == 0);
  CHECK(strcmp(lp_strerror(LP_NOT_FOUND), "not_found") == 0);
}

static void test_scripts_that_are_no_programs(void) {
  static const struct {
    const char *text;
    lp_status status;
    const char *words;
  } bad[] = {
      {"return 1 +", LP_INVALID_ARGUMENT, "test:1: unexpected symbol"},
      {"error 'no luck'", LP_UNKNOWN, "no luck"},
      {"require('lp').error('not_found', 'gone')", LP_NOT_FOUND, "gone"},
      {"return 5", LP_INVALID_ARGUMENT, "the script returned 5; it must return a program"},
      {"\x1bLua", LP_INVALID_ARGUMENT, "attempt to load a binary chunk"},
      {"os.exit(3)", LP_UNKNOWN, "it cannot end"},
      {"local flags = require('lp').flags{n = {1, 'x'}}", LP_INVALID_ARGUMENT, "unknown"},
  };
  const char *const arguments[] = {"--unknown"};
  lp_program *program = NULL;
  lp_run *other = NULL;
  open_engine();
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    FAILS(lp_program_load_text(engine, "test", bad[i].text, strlen(bad[i].text), 1, arguments,
                               &program),
          bad[i].status, bad[i].words);
    CHECK(!program);
  }
  FAILS(lp_program_load_file(engine, "/no/such/file", 0, NULL, &program), LP_NOT_FOUND,
        "/no/such/file");
  FAILS(lp_program_load_file(engine, "/", 0, NULL, &program), LP_NOT_FOUND, "folder");
  FAILS(lp_program_load_text(engine, NULL, "", 0, 0, NULL, &program), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_program_load_text(engine, "x", "", 0, 1, NULL, &program), LP_INVALID_ARGUMENT,
        "1 arguments");
  static const char empty[] = PROGRAM "return program";
  OK(lp_program_load_text(engine, "x", empty, strlen(empty), 0, NULL, &program));
  FAILS(lp_program_launch(program, NULL, &other), LP_UNKNOWN, "has no nodes");
  lp_program_free(program);
  OK(lp_program_load_text(engine, "x", echo_program, strlen(echo_program), 0, NULL, &program));
  lp_launch_options options = {0};
  FAILS(lp_program_launch(program, &options, &other), LP_INVALID_ARGUMENT,
        "lp_launch_options_init");
  lp_launch_options_init(&options);
  options.launch_type = "moon";
  FAILS(lp_program_launch(program, &options, &other), LP_UNKNOWN, "moon");
  lp_program_free(program);
  static const char hosted[] =
      PROGRAM "program:add_node(lp.HostNode 'world', 'world') return program";
  OK(lp_program_load_text(engine, "x", hosted, strlen(hosted), 0, NULL, &program));
  FAILS(lp_program_launch(program, NULL, &other), LP_UNKNOWN, "implements no host node \"world\"");
  lp_program_free(program);
  OK(lp_engine_free(engine));
  engine = NULL;
}

static void check_load_timeout(bool signals) {
  lp_engine_options options;
  lp_program *program = NULL;
  lp_engine_options_init(&options);
  options.signals = signals;
  options.load_timeout = 0.1;
  OK(lp_engine_open(&options, &engine));
  static const char *const stuck[] = {"while true do end",
                                      "while true do pcall(function() while true do end end) end",
                                      "require('lp').sleep(1000)", "require('lp').Event():wait()"};
  for (size_t i = 0; i < sizeof stuck / sizeof *stuck; i++)
    FAILS(lp_program_load_text(engine, "stuck", stuck[i], strlen(stuck[i]), 0, NULL, &program),
          LP_DEADLINE_EXCEEDED, "stuck has not returned its program within 0.1 s");
  lp_engine_close(engine);
  OK(lp_engine_free(engine));
  options.load_timeout = 30;
  OK(lp_engine_open(&options, &engine));
  launch_text(echo_program);
  lp_node *node = node_named("near/0");
  OK(lp_node_call_wait(node, "echo", NULL, 30, NULL));
  lp_node_free(node);
  close_engine();
}

static void test_a_script_that_does_not_return_is_given_up(void) {
  check_load_timeout(false);
  if (SIGNALS_COME) check_load_timeout(true);
}

/* ---- calls ------------------------------------------------------------------ */

typedef struct answer {
  int count;
  lp_status status;
  char code[32], message[256], node[32];
  bool traced;
  int64_t first;
  size_t results;
} answer;

static void keep_answer(void *user, const lp_error *error, lp_reader *results) {
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

/* ---- the host's loop -------------------------------------------------------- */

/* Of the processor, by this thread: what others take meanwhile does not count. */
static int64_t used_now(void) {
  struct timespec used;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

static void check_budget(bool signals) {
  lp_engine_options options;
  lp_engine_options_init(&options);
  options.signals = signals;
  options.output = on_output;
  OK(lp_engine_open(&options, &engine));
  launch_text(echo_program);
  lp_node *far = node_named("echo/0"), *node = node_named("near/0");
  answer never = {0}, got = {0};
  OK(lp_node_call_wait(far, "echo", NULL, 30, NULL));
  OK(lp_node_call_wait(node, "echo", NULL, 30, NULL));
  OK(lp_node_call(node, "forever", NULL, 0, keep_answer, &never));
  int quick = 0;
  for (int i = 0; i < 100; i++) {
    int64_t begin = used_now();
    OK(lp_poll(engine, 0.002));
    quick += used_now() - begin < 20000000;
  }
  CHECK(quick > 90 && never.count == 0);
  /* Others of the host's thread get their turn. */
  OK(lp_node_call(far, "echo", NULL, 0, keep_answer, &got));
  POLL_UNTIL(got.count);
  lp_node_free(node);
  lp_node_free(far);
  close_engine();
  CHECK(never.count == 1 && never.status != LP_OK);
}

static void test_the_budget_is_kept_without_signals(void) {
  check_budget(false);
}

static void test_the_budget_is_kept_with_signals(void) {
  if (SIGNALS_COME) check_budget(true);
}

static bool readable(int fd, int timeout_ms) {
  struct pollfd one = {.fd = fd, .events = POLLIN};
  return poll(&one, 1, timeout_ms) == 1;
}

static void test_the_descriptor_tells_when_to_poll(void) {
  int fd = -1, same = -1, posts = 0;
  answer got = {0};
  open_engine();
  FAILS(lp_fd(engine, NULL), LP_INVALID_ARGUMENT, "NULL");
  OK(lp_fd(engine, &fd));
  OK(lp_fd(engine, &same));
  CHECK(fd == same && fd >= 0);
  launch_text(echo_program);
  lp_node *far = node_named("echo/0"), *near = node_named("near/0");
  lp_values *values = lp_values_new();
  OK(lp_push_number(values, 0.05));
  /* Answers from another thread, and timers of this one. */
  OK(lp_node_call(far, "slow", values, 0, keep_answer, &got));
  OK(lp_node_call(near, "slow", values, 0, keep_answer, &got));
  int rounds = 0;
  for (; got.count < 2 && rounds < 1000; rounds++) {
    OK(lp_poll(engine, 0.01));
    if (got.count < 2) CHECK(readable(fd, 30000));
  }
  CHECK(got.count == 2 && rounds < 1000);
  for (int i = 0; i < 100 && readable(fd, 0); i++) OK(lp_poll(engine, 0.01));
  CHECK(!readable(fd, 0)); /* nothing to do: it sleeps */
  OK(lp_post(engine, nothing, &posts));
  CHECK(readable(fd, 30000));
  OK(lp_poll(engine, 0.01));
  CHECK(posts == 1);
  lp_values_free(values);
  lp_node_free(far);
  lp_node_free(near);
  close_engine();
}

static void *post_often(void *counter) {
  for (int i = 0; i < 1000; i++) OK(lp_post(engine, nothing, counter));
  return NULL;
}

static void test_other_threads_post(void) {
  int count = 0;
  pthread_t threads[4];
  open_engine();
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, post_often, &count) == 0);
  POLL_UNTIL(count == 4000);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  OK(lp_engine_free(engine));
  engine = NULL;
}

static void on_run_end(void *user, lp_run *which, const char *failure) {
  CHECK(which == run);
  snprintf(user, 256, "%s", failure ? failure : "well");
}

static void test_the_end_of_a_run_is_told(void) {
  char told[256] = "", again[256] = "";
  open_engine();
  launch_text(PROGRAM
              "program:add_node(lp.LuaNode(function() error 'boom' end), 'bad') "
              "return program");
  OK(lp_run_on_end(run, on_run_end, told));
  FAILS(lp_run_wait(run, 30), LP_ABORTED, "node bad/0 failed: ");
  CHECK(strstr(told, "boom") && strstr(lp_message(), "boom"));
  OK(lp_run_on_end(run, on_run_end, again));
  POLL_UNTIL(*again);
  CHECK(strcmp(told, again) == 0);
  OK(lp_run_close(run));
  launch_text(PROGRAM "program:add_node(lp.LuaNode(lp.wait_for_stop), 'waits') return program");
  FAILS(lp_run_wait(run, 0), LP_DEADLINE_EXCEEDED, lp_run_id(run));
  *told = 0;
  OK(lp_run_on_end(run, on_run_end, told));
  close_engine();
  CHECK(strcmp(told, "well") == 0);
}

/* A node inside of a C function: one that opens a pipe whose other end nobody has. */
static void test_an_engine_with_a_stuck_node_says_which(void) {
  char path[] = "/tmp/lp-embed-XXXXXX", text[512];
  CHECK(mkdtemp(path) != NULL);
  snprintf(text, sizeof text, "%s/pipe", path);
  char *fifo = strdup(text);
  CHECK(mkfifo(fifo, 0600) == 0);
  snprintf(text, sizeof text,
           PROGRAM
           "program:add_node(lp.LuaNode(function() print 'opens' io.open('%s') end), 'stuck') "
           "return program",
           fifo);
  open_engine();
  launch_text(text);
  POLL_UNTIL(strstr(printed, "opens"));
  FAILS(lp_engine_close(engine), LP_UNAVAILABLE, "node stuck/0");
  OK(lp_poll(engine, 0)); /* it is open still */
  FILE *other = fopen(fifo, "w");
  CHECK(other != NULL);
  lp_status status = LP_UNAVAILABLE;
  for (int i = 0; i < 3000 && status == LP_UNAVAILABLE; i++) {
    usleep(10000);
    status = lp_engine_close(engine);
  }
  OK(status);
  if (other) fclose(other);
  OK(lp_run_close(run));
  OK(lp_engine_free(engine));
  run = NULL;
  engine = NULL;
  remove(fifo);
  rmdir(path);
  free(fifo);
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

/* ---- many ------------------------------------------------------------------- */

static void *own_engine(void *argument) {
  lp_engine *mine = NULL;
  lp_program *program = NULL;
  lp_run *running = NULL;
  lp_node *node = NULL;
  (void)argument;
  for (int i = 0; i < 5; i++) {
    OK(lp_engine_open(NULL, &mine));
    OK(lp_program_load_text(mine, "t", echo_program, strlen(echo_program), 0, NULL, &program));
    OK(lp_program_launch(program, NULL, &running));
    OK(lp_run_node(running, i % 2 ? "echo/0" : "near/0", &node));
    for (int k = 0; k < 50; k++) OK(lp_node_call_wait(node, "echo", NULL, 30, NULL));
    lp_node_free(node);
    lp_program_free(program);
    OK(lp_run_close(running));
    OK(lp_engine_free(mine));
  }
  return NULL;
}

static void test_several_engines_in_several_threads(void) {
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, own_engine, NULL) == 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

static int count_folder(const char *path) {
  int count = 0;
  DIR *folder = opendir(path);
  while (folder && readdir(folder)) count++;
  if (folder) closedir(folder);
  return count;
}

static size_t allocated(void) {
  return mallinfo2().uordblks;
}

/* LP_EMBED_ROUNDS=1000 for the whole of it. */
static void test_starting_and_stopping_leaves_nothing(void) {
  const char *wanted = getenv("LP_EMBED_ROUNDS");
  int rounds = wanted ? atoi(wanted) : 60;
  size_t before = 0;
  int files = 0, threads = 0;
  for (int i = 0; i < rounds; i++) {
    if (i == 10) {
      before = allocated();
      files = count_folder("/proc/self/fd");
      threads = count_folder("/proc/self/task");
    }
    open_engine();
    launch_text(echo_program);
    lp_node *node = node_named("echo/0");
    OK(lp_node_call_wait(node, "echo", NULL, 30, NULL));
    lp_node_free(node);
    close_engine();
  }
  CHECK(count_folder("/proc/self/fd") == files && count_folder("/proc/self/task") == threads);
  CHECK(allocated() < before + 512 * 1024);
}

static void *count_bytes(void *user, void *block, size_t old_bytes, size_t bytes) {
  _Atomic long *total = user;
  if (bytes == 0) {
    if (block) *total -= (long)old_bytes;
    free(block);
    return NULL;
  }
  void *moved = realloc(block, bytes);
  if (moved) *total += (long)bytes - (block ? (long)old_bytes : 0);
  return moved;
}

static void test_interpreters_use_the_allocator_they_are_given(void) {
  _Atomic long bytes = 0;
  lp_engine_options options;
  lp_engine_options_init(&options);
  options.allocate = count_bytes;
  options.allocate_user = (void *)&bytes;
  OK(lp_engine_open(&options, &engine));
  launch_text(echo_program);
  lp_node *node = node_named("echo/0");
  OK(lp_node_call_wait(node, "echo", NULL, 30, NULL));
  CHECK(bytes > 100000);
  lp_node_free(node);
  close_engine();
  CHECK(bytes == 0);
}

int main(void) {
  RUN(test_values_are_read_as_they_were_pushed);
  RUN(test_values_used_wrongly);
  RUN(test_null_is_refused);
  RUN(test_an_engine_belongs_to_its_thread);
  RUN(test_another_thread_can_take_an_engine_over);
  RUN(test_a_closed_engine_refuses);
  RUN(test_scripts_that_are_no_programs);
  RUN(test_a_script_that_does_not_return_is_given_up);
  RUN(test_nodes_are_called);
  RUN(test_too_many_calls_are_refused);
  RUN(test_calls_under_way_are_told_when_the_engine_closes);
  RUN(test_a_host_node_answers_now_or_later);
  RUN(test_a_call_may_be_answered_when_its_engine_is_gone);
  RUN(test_the_budget_is_kept_without_signals);
  RUN(test_the_budget_is_kept_with_signals);
  RUN(test_the_descriptor_tells_when_to_poll);
  RUN(test_other_threads_post);
  RUN(test_the_end_of_a_run_is_told);
  RUN(test_an_engine_with_a_stuck_node_says_which);
  RUN(test_nodes_get_new_code);
  RUN(test_several_engines_in_several_threads);
  RUN(test_interpreters_use_the_allocator_they_are_given);
  RUN(test_starting_and_stopping_leaves_nothing);
  return TEST_END();
}
