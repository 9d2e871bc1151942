/* Printing lines: to readers that are slow, gone or full, and from pipes that break lines
 * anywhere. Nothing here may wait for a reader, so a wait is a test that never ends. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "process/printer.h"
#include "process/spawn.h"
#include "test.h"

enum { LIMIT = 64 * 1024, TEXT = 4 * 1024 * 1024 };

static poller *loop;
static char text[TEXT]; /* what was read from the printer */
static size_t text_length;

static void pipe_to(int ends[2]) {
  CHECK(pipe2(ends, O_CLOEXEC) == 0);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
}

static void start_reading(void) {
  text_length = 0;
  text[0] = '\0';
}

static void read_now(int fd) {
  ssize_t got;
  while ((got = read(fd, text + text_length, TEXT - 1 - text_length)) > 0)
    text_length += (size_t)got;
  text[text_length] = '\0';
}

/* Turns the loop until nothing is ready. */
static void settle(void) {
  for (int i = 0; i < 50; i++) poller_wait(loop, 0);
}

static void line(printer *to, int stream, const char *prefix, const char *words) {
  CHECK(printer_lines(to, stream, prefix, -1, words, strlen(words)));
}

static void count_call(void *owner) {
  ++*(int *)owner;
}

/* ---- lines ---- */

static void each_line_gets_the_prefix(void) {
  int ends[2];
  pipe_to(ends);
  printer *to = printer_new(loop, ends[1], ends[1], false, LIMIT);
  CHECK(printer_merged(to));
  line(to, 1, "[a] ", "one\ntwo\n\n\nlast");
  line(to, 2, "[b/1] ", "\n");
  line(to, 1, "", "plain");
  line(to, 1, "[a] ", "");
  CHECK(printer_lines(to, 1, "[a] ", -1, "zero\0byte", 9));
  printer_free(to, 1000);
  start_reading();
  read_now(ends[0]);
  static const char wanted[] =
      "[a] one\n[a] two\n[a] \n[a] \n[a] last\n[b/1] \nplain\n[a] zero\0byte\n";
  CHECK(text_length == sizeof wanted - 1 && memcmp(text, wanted, text_length) == 0);
  close(ends[0]);
  close(ends[1]);
}

static void only_the_prefix_is_coloured(void) {
  int ends[2];
  pipe_to(ends);
  printer *to = printer_new(loop, ends[1], -1, true, LIMIT);
  printer_lines(to, 1, "[a] ", 0, "x\n", 2);
  printer_lines(to, 1, "[b] ", 5, "y\nz", 3);
  printer_lines(to, 1, "[c] ", -1, "none", 4);
  printer_lines(to, 1, "", 1, "none", 4);
  printer_free(to, 1000);
  start_reading();
  read_now(ends[0]);
  CHECK(strcmp(text,
               "\x1b[1;36m[a]\x1b[0m x\n\x1b[1;31m[b]\x1b[0m y\n\x1b[1;31m[b]\x1b[0m z\n"
               "[c] none\nnone\n") == 0);
  close(ends[0]);
  close(ends[1]);
}

static void streams_stay_apart(void) {
  int out[2], err[2];
  pipe_to(out);
  pipe_to(err);
  printer *to = printer_new(loop, out[1], err[1], false, LIMIT);
  CHECK(!printer_merged(to));
  line(to, 1, "", "to out");
  line(to, 2, "", "to err");
  settle();
  start_reading();
  read_now(out[0]);
  CHECK(strcmp(text, "to out\n") == 0);
  start_reading();
  read_now(err[0]);
  CHECK(strcmp(text, "to err\n") == 0);
  printer_free(to, 0);
  for (int i = 0; i < 2; i++) {
    close(out[i]);
    close(err[i]);
  }
}

/* ---- readers ---- */

static void nobody_reads(int ends[2]) {
  int rooms = 0, lines = 0;
  char words[32];
  int flags = fcntl(ends[1], F_GETFL);
  printer *to = printer_new(loop, ends[1], ends[1], false, LIMIT);
  printer_on_room(to, count_call, &rooms);
  for (; !printer_full(to); lines++) {
    snprintf(words, sizeof words, "line %07d", lines);
    line(to, 1 + lines % 2, "[node/0] ", words);
    poller_wait(loop, 0);
  }
  settle();
  CHECK(printer_full(to) && rooms == 0);
  CHECK(fcntl(ends[1], F_GETFL) == flags);
  start_reading();
  for (size_t wanted = (size_t)lines * 22; text_length < wanted;) {
    struct pollfd readable = {ends[0], POLLIN, 0};
    poller_wait(loop, 0);
    if (poll(&readable, 1, 0) == 1) read_now(ends[0]);
  }
  CHECK(rooms == 1 && !printer_full(to));
  for (int i = 0; i < lines; i++) {
    snprintf(words, sizeof words, "[node/0] line %07d", i);
    if (memcmp(text + (size_t)i * 22, words, 21) != 0) {
      CHECK(!"lines in order");
      break;
    }
  }
  for (int i = 0; i < 100000; i++) line(to, 1, "", "more than the pipe holds");
  printer_free(to, 20);
  close(ends[0]);
  close(ends[1]);
}

static void text_goes_out_as_it_is_and_does_not_run_into_a_line(void) {
  int ends[2];
  pipe_to(ends);
  printer *to = printer_new(loop, ends[1], ends[1], false, LIMIT);
  start_reading();
  CHECK(printer_text(to, 1, "..", 2));
  CHECK(printer_text(to, 1, ".\n+", 3));
  line(to, 1, "[a] ", "x");
  line(to, 1, "[b] ", "y");
  CHECK(printer_text(to, 1, "", 0));
  CHECK(printer_text(to, 1, "end", 3));
  printer_free(to, 1000);
  read_now(ends[0]);
  CHECK(strcmp(text, "...\n+\n[a] x\n[b] y\nend") == 0);
  close(ends[0]);
  close(ends[1]);
}

static void a_pipe_nobody_reads_never_blocks(void) {
  int ends[2];
  pipe_to(ends);
  nobody_reads(ends);
}

static void a_socket_nobody_reads_never_blocks(void) {
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  nobody_reads(ends);
}

static int open_terminal(int ends[2]) {
  ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (ends[0] < 0 || grantpt(ends[0]) != 0 || unlockpt(ends[0]) != 0) return 0;
  ends[1] = open(ptsname(ends[0]), O_RDWR | O_NOCTTY | O_CLOEXEC);
  return ends[1] >= 0;
}

/* Nor does it spin: what the poller calls writable takes bytes. */
static void a_terminal_nobody_reads_never_blocks(void) {
  int ends[2];
  if (!open_terminal(ends)) return; /* a machine without pseudo-terminals */
  int other = open(ptsname(ends[0]), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  printer *to = printer_new(loop, ends[1], other, false, LIMIT);
  CHECK(printer_merged(to));
  while (!printer_full(to)) {
    line(to, 1, "[node] ", "to a terminal");
    poller_wait(loop, 0);
  }
  settle();
  CHECK(printer_full(to));
  start_reading();
  while (printer_full(to)) {
    read_now(ends[0]);
    poller_wait(loop, 0);
  }
  CHECK(strncmp(text, "[node] to a terminal\r\n[node] to", 31) == 0);
  close(ends[0]); /* the terminal hangs up */
  for (int i = 0; i < 1000; i++) line(to, 1, "", "to nobody");
  settle();
  printer_free(to, 1000);
  close(ends[1]);
  close(other);
}

static int sigpipe_pending(void) {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGPIPE);
}

static void reader_leaves(int ends[2]) {
  int cause = 0, rooms = 0;
  sigset_t mask;
  printer *to = printer_new(loop, ends[1], ends[1], false, LIMIT);
  printer_on_room(to, count_call, &rooms);
  while (!printer_full(to)) line(to, 1, "", "words");
  close(ends[0]);
  settle();
  CHECK(!printer_full(to) && rooms == 1);
  CHECK(printer_lost(to, 1, &cause) > 0 && (cause == EPIPE || cause == ECONNRESET));
  line(to, 2, "", "dropped");
  CHECK(!printer_full(to) && !sigpipe_pending());
  pthread_sigmask(SIG_BLOCK, NULL, &mask);
  CHECK(!sigismember(&mask, SIGPIPE));
  printer_free(to, 1000);
  CHECK(fcntl(ends[1], F_GETFD) >= 0); /* borrowed */
  close(ends[1]);
}

static void a_reader_that_leaves_is_no_error(void) {
  int ends[2];
  pipe_to(ends);
  reader_leaves(ends);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  reader_leaves(ends);
}

static void a_pending_sigpipe_of_the_host_is_left_to_it(void) {
  int ends[2];
  sigset_t broken, before;
  pipe_to(ends);
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken, &before);
  pthread_kill(pthread_self(), SIGPIPE);
  printer *to = printer_new(loop, ends[1], -1, false, LIMIT);
  close(ends[0]);
  line(to, 1, "", "words");
  settle();
  CHECK(sigpipe_pending());
  printer_free(to, 0);
  static const struct timespec none;
  sigtimedwait(&broken, NULL, &none);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  close(ends[1]);
}

static void a_closed_descriptor_drops(void) {
  int unused = fcntl(0, F_DUPFD_CLOEXEC, 100);
  if (unused >= 0) close(unused);
  printer *to = printer_new(loop, unused, unused, false, LIMIT);
  line(to, 1, "[a] ", "words");
  line(to, 2, "[a] ", "words");
  settle();
  CHECK(!printer_full(to) && !printer_merged(to));
  printer_free(to, 1000);
  printer_free(NULL, 0);
  int input = open("/dev/null", O_RDONLY | O_CLOEXEC); /* not open for writing */
  to = printer_new(loop, input, -1, false, LIMIT);
  line(to, 1, "[a] ", "words");
  printer_free(to, 1000);
  close(input);
}

/* ---- files ---- */

static char path[] = "/tmp/lp-printer-XXXXXX";

static void read_file(void) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  start_reading();
  read_now(fd);
  close(fd);
}

static void a_file_is_written_at_once_and_in_order(void) {
  int first = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
  int second = open(path, O_WRONLY | O_CLOEXEC);
  printer *to = printer_new(loop, first, second, false, LIMIT);
  CHECK(printer_merged(to));
  line(to, 1, "[a] ", "1");
  line(to, 2, "[b] ", "2");
  line(to, 1, "[a] ", "3");
  read_file();
  CHECK(strcmp(text, "[a] 1\n[b] 2\n[a] 3\n") == 0);
  printer_free(to, 0);
  close(first);
  close(second);
}

static void a_full_disk_neither_spins_nor_stops(void) {
  int cause = 0, fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
  printer *to = printer_new(loop, fd, -1, false, LIMIT);
  for (int i = 0; i < 10000; i++) line(to, 1, "[a] ", "words");
  settle();
  CHECK(!printer_full(to));
  CHECK(printer_lost(to, 1, &cause) == 100000 && cause == ENOSPC);
  CHECK(printer_lost(to, 2, NULL) == 0);
  printer_free(to, 1000);
  close(fd);
}

static void a_torn_line_is_ended_before_the_next(void) {
  struct rlimit limit, small;
  int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
  printer *to = printer_new(loop, fd, -1, false, LIMIT);
  getrlimit(RLIMIT_FSIZE, &limit);
  small = limit;
  small.rlim_cur = 10;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  line(to, 1, "[a] ", "torn to pieces");
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, SIG_DFL);
  CHECK(printer_lost(to, 1, NULL) == 9);
  line(to, 1, "[b] ", "whole");
  line(to, 1, "[b] ", "again");
  read_file();
  CHECK(strcmp(text, "[a] torn t\n[b] whole\n[b] again\n") == 0);
  printer_free(to, 0);
  close(fd);
}

/* ---- sources ---- */

typedef struct feeding {
  int reader; /* end of the pipe that the printer writes */
  int out;    /* its write end */
  int writer; /* end of the pipe that the source reads */
  int end_calls;
  printer *to;
  printer_source *source;
} feeding;

static void on_end(void *owner) {
  feeding *all = owner;
  all->end_calls++;
  printer_source_free(all->source);
  all->source = NULL;
}

static feeding feed_through(size_t limit) {
  feeding all = {0};
  int out[2], in[2];
  pipe_to(out);
  CHECK(pipe2(in, O_CLOEXEC) == 0);
  fcntl(in[1], F_SETFL, O_NONBLOCK);
  all.reader = out[0];
  all.out = out[1];
  all.writer = in[1];
  all.to = printer_new(loop, out[1], out[1], false, limit);
  all.end_calls = in[0]; /* until add_source */
  start_reading();
  return all;
}

static void add_source(feeding *all, const char *prefix) {
  int fd = all->end_calls;
  all->end_calls = 0;
  all->source = printer_source_new(all->to, fd, 1, prefix, -1, on_end, all);
  CHECK(all->source != NULL);
}

static void feed(feeding *all, const char *words) {
  CHECK(write(all->writer, words, strlen(words)) == (ssize_t)strlen(words));
  settle();
  read_now(all->reader);
}

static void end_feeding(feeding *all) {
  if (all->writer >= 0) close(all->writer);
  while (all->source) poller_wait(loop, -1);
  for (size_t before = SIZE_MAX; before != text_length;) {
    before = text_length;
    settle();
    read_now(all->reader);
  }
  CHECK(all->end_calls == 1);
  printer_free(all->to, 0);
  close(all->reader);
  close(all->out);
}

static void a_source_prints_whole_lines(void) {
  feeding all = feed_through(LIMIT);
  add_source(&all, "[s] ");
  feed(&all, "one\ntw");
  CHECK(strcmp(text, "[s] one\n") == 0);
  feed(&all, "o\n\n");
  CHECK(strcmp(text, "[s] one\n[s] two\n[s] \n") == 0);
  start_reading();
  static const char *const bytes[] = {"b", "y", "t", "e", "s", "\n", "x"};
  for (int i = 0; i < 7; i++) feed(&all, bytes[i]);
  CHECK(strcmp(text, "[s] bytes\n") == 0);
  end_feeding(&all);
  CHECK(strcmp(text, "[s] bytes\n[s] x\n") == 0);
}

static void a_partial_line_is_printed_in_time(void) {
  feeding all = feed_through(LIMIT);
  add_source(&all, "[s] ");
  CHECK(!printer_source_tick(all.source, clock_now()));
  int64_t before = clock_now();
  feed(&all, "name? ");
  int64_t after = clock_now();
  CHECK(printer_source_tick(all.source, before + 199999999));
  settle();
  read_now(all.reader);
  CHECK(text_length == 0);
  CHECK(!printer_source_tick(all.source, after + 200000001));
  CHECK(!printer_source_tick(all.source, after + 200000001));
  feed(&all, "\nnext\n"); /* the newline ends the line that is printed already */
  CHECK(strcmp(text, "[s] name? \n[s] next\n") == 0);
  feed(&all, "a");
  printer_source_tick(all.source, clock_now() + 300000000);
  feed(&all, "b\n\n");
  CHECK(strcmp(text, "[s] name? \n[s] next\n[s] a\n[s] b\n[s] \n") == 0);
  end_feeding(&all);
}

/* A line longer than PIPE_BUF and than what is read at a time stays one line between the
 * lines of others. */
static void a_long_line_stays_whole(void) {
  enum { LONG = 100000 };
  static char words[LONG + 1];
  feeding all = feed_through(LIMIT);
  add_source(&all, "[s] ");
  memset(words, 'w', LONG);
  for (size_t sent = 0; sent < LONG;) {
    size_t count = LONG - sent < 8000 ? LONG - sent : 8000;
    ssize_t wrote = write(all.writer, words + sent, count);
    if (wrote > 0) sent += (size_t)wrote;
    line(all.to, 1, "[o] ", "other");
    settle();
    read_now(all.reader);
  }
  feed(&all, "\n");
  while (text_length < 5 || strcmp(text + text_length - 2, "w\n") != 0) feed(&all, "");
  char *start = strstr(text, "[s] ");
  CHECK(start && strspn(start + 4, "w") == LONG && strcmp(start + 4 + LONG, "\n") == 0);
  CHECK(start && strstr(start, "[o]") == NULL && start[-1] == '\n');
  end_feeding(&all);
}

static void an_endless_line_is_broken(void) {
  static char words[60001];
  feeding all = feed_through(8 * LIMIT);
  add_source(&all, "[s] ");
  memset(words, 'w', sizeof words - 1);
  for (int i = 0; i < 20; i++) feed(&all, words);
  end_feeding(&all);
  CHECK(text_length == 1200000 + 5 * 5); /* five pieces, each a line */
}

static int writable_bytes(int fd) {
  static const char block[1000] = "y\n";
  int bytes = 0;
  while (write(fd, block, sizeof block) > 0) bytes += (int)sizeof block;
  return bytes;
}

/* Backpressure: the reader's slowness reaches the node, and nothing grows meanwhile. */
static void a_source_pauses_while_the_printer_is_full(void) {
  feeding all = feed_through(8 * 1024);
  add_source(&all, "[s] ");
  int total = 0, wrote;
  while ((wrote = writable_bytes(all.writer)) > 0) {
    total += wrote;
    settle();
  }
  CHECK(printer_full(all.to) && total < 1024 * 1024);
  read_now(all.reader);
  while (printer_full(all.to)) {
    poller_wait(loop, -1);
    read_now(all.reader);
  }
  settle();
  CHECK(writable_bytes(all.writer) > 0);
  close(all.writer);
  all.writer = -1;
  while (all.source) {
    poller_wait(loop, -1);
    read_now(all.reader);
  }
  end_feeding(&all);
}

static void freeing_a_source_prints_what_is_left(void) {
  feeding all = feed_through(LIMIT);
  add_source(&all, "[s] ");
  CHECK(write(all.writer, "left\nbehind", 11) == 11);
  printer_source_free(all.source); /* the writer is still open */
  printer_source_free(NULL);
  printer_free(all.to, 1000);
  read_now(all.reader);
  CHECK(strcmp(text, "[s] left\n[s] behind\n") == 0);
  CHECK(all.end_calls == 0);
  close(all.writer);
  close(all.reader);
  close(all.out);
}

/* A child whose stdout and stderr are one pipe, as a node gets when ours are one file. */
static void both_streams_of_a_child_keep_their_order(void) {
  feeding all = feed_through(LIMIT);
  add_source(&all, "[s] ");
  char *argv[] = {"sh", "-c", "for i in 1 2 3; do echo out$i; echo err$i >&2; done", NULL};
  spawn_request request = {.file = "sh", .argv = argv};
  pid_t pid;
  request.stdout_fd = request.stderr_fd = all.writer;
  CHECK(spawn_process(&request, &pid, NULL) == LP_OK);
  end_feeding(&all);
  CHECK(waitpid(pid, NULL, 0) == pid);
  CHECK(strcmp(text, "[s] out1\n[s] err1\n[s] out2\n[s] err2\n[s] out3\n[s] err3\n") == 0);
}

static void a_plain_file_is_no_source(void) {
  printer *to = printer_new(loop, -1, -1, false, LIMIT);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  CHECK(printer_source_new(to, fd, 1, "", -1, on_end, NULL) == NULL);
  CHECK(fcntl(fd, F_GETFD) < 0);
  printer_free(to, 0);
}

/* ---- memory ---- */

/* Runs under LP_FAULT_ALLOC: whatever is refused, nothing crashes, leaks or blocks. */
static int print_a_little(void) {
  int in[2], out[2];
  signal(SIGPIPE, SIG_IGN); /* for our own write to a source that could not be had */
  loop = poller_new();
  if (!loop || pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) return 0;
  printer *to = printer_new(loop, out[1], out[1], true, LIMIT);
  if (to) {
    printer_source *source = printer_source_new(to, in[0], 2, "[s] ", 1, count_call, &in[0]);
    (void)!write(in[1], "a line\nand a part", 17);
    for (int i = 0; i < 50; i++) poller_wait(loop, 0);
    (void)!write(in[1], " of one\nrest", 12);
    printer_lines(to, 1, "[a] ", 0, "words", 5);
    for (int i = 0; i < 50; i++) poller_wait(loop, 0);
    printer_source_free(source);
    printer_free(to, 0);
  } else {
    close(in[0]);
  }
  poller_free(loop);
  close(in[1]);
  close(out[0]);
  close(out[1]);
  return 0;
}

static void survives_when_memory_is_out(void) {
  for (int n = 1; n < 30; n++) {
    char command[PATH_MAX + 64], self[PATH_MAX] = {0};
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(command, sizeof command, "LP_FAULT_ALLOC=%d '%s' little", n, self);
    CHECK(system(command) == 0);
  }
}

static void run_sources(void) {
  RUN(a_source_prints_whole_lines);
  RUN(a_partial_line_is_printed_in_time);
  RUN(a_long_line_stays_whole);
  RUN(an_endless_line_is_broken);
  RUN(a_source_pauses_while_the_printer_is_full);
  RUN(freeing_a_source_prints_what_is_left);
  RUN(both_streams_of_a_child_keep_their_order);
  RUN(a_plain_file_is_no_source);
}

int main(int argc, char **argv) {
  (void)argv;
  alarm(120); /* a write or wait that blocks is a failure */
  if (argc > 1) return print_a_little();
  loop = poller_new();
  int fd = mkstemp(path);
  if (!loop || fd < 0) return 1;
  close(fd);
  RUN(each_line_gets_the_prefix);
  RUN(only_the_prefix_is_coloured);
  RUN(streams_stay_apart);
  RUN(text_goes_out_as_it_is_and_does_not_run_into_a_line);
  RUN(a_pipe_nobody_reads_never_blocks);
  RUN(a_socket_nobody_reads_never_blocks);
  RUN(a_terminal_nobody_reads_never_blocks);
  RUN(a_reader_that_leaves_is_no_error);
  RUN(a_pending_sigpipe_of_the_host_is_left_to_it);
  RUN(a_closed_descriptor_drops);
  RUN(a_file_is_written_at_once_and_in_order);
  RUN(a_full_disk_neither_spins_nor_stops);
  RUN(a_torn_line_is_ended_before_the_next);
  run_sources();
  RUN(survives_when_memory_is_out);
  unlink(path);
  poller_free(loop);
  return TEST_END();
}
