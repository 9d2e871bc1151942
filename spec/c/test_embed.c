/* The engine as a library (lp.h): engines, scripts, the host's loop, also used wrongly; several
 * engines and threads; starting and stopping without a leak. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "embed.h"

/* ---- engines ---------------------------------------------------------------- */

static lp_node *used_node; /* of use_elsewhere */
static lp_program *used_program;

static void *use_elsewhere(void *argument) {
  lp_values *values = lp_values_new();
  int fd;
  bool ended;
  lp_node *node = NULL;
  lp_program *program = NULL;
  lp_run *other = NULL;
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
  FAILS(lp_run_on_end(run, NULL, NULL), LP_FAILED_PRECONDITION, "another thread");
  FAILS(lp_run_reload(run, NULL, 0, NULL), LP_FAILED_PRECONDITION, "another thread");
  FAILS(lp_program_launch(used_program, NULL, &other), LP_FAILED_PRECONDITION, "another thread");
  FAILS(lp_host_node(argument, "x", (lp_methods[]){{NULL, NULL}}, NULL), LP_FAILED_PRECONDITION,
        "another thread");
  FAILS(lp_node_call(used_node, "echo", NULL, 0, NULL, NULL), LP_FAILED_PRECONDITION,
        "another thread");
  FAILS(lp_node_notify(used_node, "echo", NULL), LP_FAILED_PRECONDITION, "another thread");
  FAILS(lp_node_call_wait(used_node, "echo", NULL, 0, NULL), LP_FAILED_PRECONDITION,
        "another thread");
  lp_reader reader = lp_values_read(values);
  FAILS(lp_read_node(argument, &reader, &node), LP_FAILED_PRECONDITION, "another thread");
  lp_values_free(values);
  return NULL;
}

static void test_an_engine_belongs_to_its_thread(void) {
  pthread_t thread;
  open_engine();
  launch_text(echo_program);
  OK(lp_program_load_text(engine, "test", echo_program, strlen(echo_program), 0, NULL,
                          &used_program));
  used_node = node_named("echo/0");
  CHECK(pthread_create(&thread, NULL, use_elsewhere, engine) == 0);
  pthread_join(thread, NULL);
  lp_node_free(used_node);
  lp_program_free(used_program);
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
  FAILS(lp_program_load_file(engine, "/", 0, NULL, &program), LP_NOT_FOUND,
        "cannot read /: Is a directory");
  FAILS(lp_program_load_text(engine, NULL, "", 0, 0, NULL, &program), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_program_load_text(engine, "x", "", 0, 1, NULL, &program), LP_INVALID_ARGUMENT,
        "1 arguments");
  static const char empty[] = PROGRAM "return program";
  OK(lp_program_load_text(engine, "x", empty, strlen(empty), 0, NULL, &program));
  FAILS(lp_program_launch(program, NULL, &other), LP_INVALID_ARGUMENT, "has no nodes");
  lp_program_free(program);
  OK(lp_program_load_text(engine, "x", echo_program, strlen(echo_program), 0, NULL, &program));
  lp_launch_options options = {0};
  FAILS(lp_program_launch(program, &options, &other), LP_INVALID_ARGUMENT,
        "lp_launch_options_init");
  lp_launch_options_init(&options);
  options.launch_type = "moon";
  FAILS(lp_program_launch(program, &options, &other), LP_INVALID_ARGUMENT,
        "launch_type must be one of local_mt, local_mp, test_mt, test_mp, got \"moon\"");
  CHECK(strncmp(lp_message(), "lp.launch: ", 11) == 0); /* and no line of the engine's before it */
  lp_program_free(program);
  static const char hosted[] =
      PROGRAM "program:add_node(lp.HostNode 'world', 'world') return program";
  OK(lp_program_load_text(engine, "x", hosted, strlen(hosted), 0, NULL, &program));
  FAILS(lp_program_launch(program, NULL, &other), LP_INVALID_ARGUMENT,
        "implements no host node \"world\"");
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

/* What a process has that a library might spoil. */
typedef struct belongings {
  struct sigaction actions[32];
  sigset_t mask;
  char folder[512];
} belongings;

static void take_stock(belongings *of) {
  memset(of, 0, sizeof *of);
  for (int i = 1; i < 32; i++) sigaction(i, NULL, &of->actions[i]);
  pthread_sigmask(SIG_SETMASK, NULL, &of->mask);
  CHECK(getcwd(of->folder, sizeof of->folder) != NULL);
}

static int changed_handlers(const belongings *before, const belongings *after) {
  int changed = 0;
  for (int i = 1; i < 32; i++)
    if (before->actions[i].sa_handler != after->actions[i].sa_handler && i != SIGURG) changed++;
  return changed;
}

static void test_what_belongs_to_the_host_is_left_alone(void) {
  static const char program[] = PROGRAM
      "program:add_node(lp.LuaNode(function() print 'loud' io.stderr:write 'louder\\n' lp.log.info "
      "'log' "
      "assert(os.execute 'true') end), 'node') return program";
  belongings before, after;
  int ends[2], saved[2] = {dup(1), dup(2)}, status = 0;
  char said[64];
  take_stock(&before);
  pid_t child = fork();
  if (child == 0) _exit(7);
  fflush(stdout);
  CHECK(pipe(ends) == 0 && dup2(ends[1], 1) == 1 && dup2(ends[1], 2) == 2);
  close(ends[1]);
  lp_status opened = lp_engine_open(NULL, &engine);
  launch_text(program);
  lp_status ended = lp_run_wait(run, 30);
  close_engine();
  dup2(saved[0], 1);
  dup2(saved[1], 2);
  CHECK(opened == LP_OK && ended == LP_OK);
  CHECK(read(ends[0], said, sizeof said) == 0); /* nothing was printed */
  take_stock(&after);
  CHECK(changed_handlers(&before, &after) == 0);
  CHECK(memcmp(&before.mask, &after.mask, sizeof before.mask) == 0);
  CHECK(strcmp(before.folder, after.folder) == 0);
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
  close(ends[0]);
  close(saved[0]);
  close(saved[1]);
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

static void test_what_is_no_time_is_refused(void) {
  const double nan = strtod("nan", NULL);
  lp_engine_options wrong;
  lp_engine_options_init(&wrong);
  wrong.notice = nan;
  FAILS(lp_engine_open(&wrong, &engine), LP_INVALID_ARGUMENT, "options.notice is nan; seconds");
  wrong.notice = -1;
  FAILS(lp_engine_open(&wrong, &engine), LP_INVALID_ARGUMENT, "options.notice is -1; seconds");
  wrong.notice = 1;
  wrong.load_timeout = nan;
  FAILS(lp_engine_open(&wrong, &engine), LP_INVALID_ARGUMENT, "options.load_timeout is nan");
  open_engine();
  lp_program *program = NULL;
  lp_launch_options options;
  lp_launch_options_init(&options);
  OK(lp_program_load_text(engine, "x", echo_program, strlen(echo_program), 0, NULL, &program));
  options.notice = nan;
  FAILS(lp_program_launch(program, &options, &run), LP_INVALID_ARGUMENT, "notice is nan; seconds");
  options.notice = -1; /* never */
  OK(lp_program_launch(program, &options, &run));
  lp_program_free(program);
  lp_node *echo = node_named("echo/0");
  FAILS(lp_poll(engine, nan), LP_INVALID_ARGUMENT, "lp_poll: budget is nan; seconds, 0 or more");
  FAILS(lp_poll(engine, -1), LP_INVALID_ARGUMENT, "lp_poll: budget is -1; seconds, 0 or more");
  FAILS(lp_wait(engine, nan), LP_INVALID_ARGUMENT, "lp_wait: timeout is nan; seconds");
  FAILS(lp_run_wait(run, nan), LP_INVALID_ARGUMENT, "lp_run_wait: timeout is nan; seconds");
  FAILS(lp_node_call(echo, "echo", NULL, nan, NULL, NULL), LP_INVALID_ARGUMENT, "timeout is nan");
  FAILS(lp_node_call_wait(echo, "echo", NULL, -1, NULL), LP_INVALID_ARGUMENT, "timeout is -1");
  OK(lp_node_call_wait(echo, "echo", NULL, strtod("inf", NULL), NULL));
  lp_node_free(echo);
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
  RUN(test_null_is_refused);
  RUN(test_an_engine_belongs_to_its_thread);
  RUN(test_another_thread_can_take_an_engine_over);
  RUN(test_a_closed_engine_refuses);
  RUN(test_scripts_that_are_no_programs);
  RUN(test_a_script_that_does_not_return_is_given_up);
  RUN(test_the_budget_is_kept_without_signals);
  RUN(test_the_budget_is_kept_with_signals);
  RUN(test_the_descriptor_tells_when_to_poll);
  RUN(test_other_threads_post);
  RUN(test_the_end_of_a_run_is_told);
  RUN(test_what_belongs_to_the_host_is_left_alone);
  RUN(test_an_engine_with_a_stuck_node_says_which);
  RUN(test_what_is_no_time_is_refused);
  RUN(test_several_engines_in_several_threads);
  RUN(test_interpreters_use_the_allocator_they_are_given);
  RUN(test_starting_and_stopping_leaves_nothing);
  return TEST_END();
}
