/* Streams and listeners over real sockets: pieces of every size, ends of every kind, and
 * owners that free what they are called for. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "net/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/listener.h"
#include "test.h"

enum { SCRATCH = 256 << 10, MANY = 1000 };

typedef struct peer {
  stream *stream;
  buffer got;     /* all bytes that came, in order */
  size_t offered; /* when not 0: on_space offers room up to this many bytes of `got` */
  int opens, closes, drains, stored, data_events, forgotten;
  lp_status status;
  char why[400];
  enum { KEEP, FREE_ON_OPEN, FREE_ON_DATA, FREE_ON_CLOSE, FREE_ON_DRAINED } plan;
} peer;

static int epoll_ctl_error; /* when set, the kernel refuses to watch anything */

/* Stands before the C library's, for libev as well. */
int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) {
  if (epoll_ctl_error) {
    errno = epoll_ctl_error;
    return -1;
  }
  return (int)syscall(SYS_epoll_ctl, epoll, operation, fd, event);
}

static poller *loop;
static stream_scratch scratch;
static listener *server;
static char folder[64];
static address at;
static fault why;
static peer ends[2]; /* the two ends most tests use */
static int accepted[MANY], accepted_count;

static void let_go(peer *one) {
  stream_free(one->stream);
  one->stream = NULL;
}

static void on_open(void *owner) {
  peer *one = owner;
  one->opens++;
  if (one->plan == FREE_ON_OPEN) let_go(one);
}

static uint8_t *on_space(void *owner, size_t *size) {
  peer *one = owner;
  if (one->got.length >= one->offered) return NULL;
  *size = one->offered - one->got.length;
  CHECK(buffer_reserve(&one->got, *size));
  return one->got.data + one->got.length;
}

static void on_stored(void *owner, size_t length) {
  peer *one = owner;
  one->stored++;
  one->got.length += length;
}

static void on_data(void *owner, const uint8_t *data, size_t length) {
  peer *one = owner;
  one->data_events++;
  CHECK(length > 0 && buffer_append(&one->got, data, length));
  if (one->plan == FREE_ON_DATA) let_go(one);
}

static void on_close(void *owner, lp_status status, const char *words) {
  peer *one = owner;
  one->closes++;
  one->status = status;
  snprintf(one->why, sizeof one->why, "%s", words);
  if (one->plan == FREE_ON_CLOSE) let_go(one);
}

static void on_drained(void *owner) {
  peer *one = owner;
  one->drains++;
  if (one->plan == FREE_ON_DRAINED) let_go(one);
}

static const stream_events all_events = {.on_open = on_open,
                                         .on_space = on_space,
                                         .on_stored = on_stored,
                                         .on_data = on_data,
                                         .on_close = on_close,
                                         .on_drained = on_drained};

static void on_accept(void *owner, int fd) {
  if (fd < 0) return;
  (void)owner;
  accepted[accepted_count++] = fd;
}

/* Turns the loop until the condition holds; a test that waits for ever has failed. */
#define WAIT_FOR(condition)                                                  \
  do {                                                                       \
    int64_t until = clock_now() + INT64_C(20000000000);                      \
    while (!(condition) && clock_now() < until) poller_wait(loop, 50000000); \
    CHECK(condition);                                                        \
  } while (0)

static void set_up(void) {
  loop = poller_new();
  scratch = (stream_scratch){malloc(SCRATCH), SCRATCH};
  memset(ends, 0, sizeof ends);
  accepted_count = 0;
  snprintf(folder, sizeof folder, "/tmp/lp-test-XXXXXX");
  CHECK(mkdtemp(folder) != NULL);
  memset(&at, 0, sizeof at);
  snprintf(at.name, sizeof at.name, "%s/socket", folder);
  memset(&why, 0, sizeof why);
}

static void end_peer(peer *one) {
  let_go(one);
  buffer_fini(&one->got);
}

static void tear_down(void) {
  end_peer(&ends[0]);
  end_peer(&ends[1]);
  listener_free(server);
  server = NULL;
  for (int i = 0; i < accepted_count; i++) close(accepted[i]);
  poller_free(loop);
  free(scratch.data);
  unlink(at.name);
  rmdir(folder);
}

static void open_end(peer *one, int fd, size_t buffer_bytes) {
  one->stream = stream_open(loop, &scratch, fd, buffer_bytes, &all_events, one);
  CHECK(one->stream != NULL);
}

static void open_pair(size_t buffer_bytes) {
  int fds[2];
  CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds));
  open_end(&ends[0], fds[0], buffer_bytes);
  open_end(&ends[1], fds[1], buffer_bytes);
}

static bool dial(peer *one) {
  one->stream = stream_connect(loop, &scratch, &at, 0, &all_events, one, &why);
  return one->stream != NULL;
}

static void serve(void) {
  int fd = -1;
  CHECK(listener_bind(&at, &fd, &at, &why) == LP_OK);
  server = listener_new(loop, fd, on_accept, NULL);
  CHECK(server != NULL);
}

static void append_pattern(peer *one, size_t from, size_t count) {
  buffer *out = stream_out(one->stream);
  CHECK(buffer_reserve(out, count));
  for (size_t i = from; i < from + count; i++)
    out->data[out->length++] = (uint8_t)(i * 31 + i / 251);
}

static bool got_pattern(const peer *one, size_t count) {
  if (one->got.length != count) return false;
  for (size_t i = 0; i < count; i++)
    if (one->got.data[i] != (uint8_t)(i * 31 + i / 251)) return false;
  return true;
}

static void say(peer *one, const char *text) {
  CHECK(buffer_append(stream_out(one->stream), text, strlen(text)));
  stream_flush(one->stream);
}

static bool heard(const peer *one, const char *text) {
  return one->got.length == strlen(text) && !memcmp(one->got.data, text, one->got.length);
}

static bool says(const peer *one, const char *words) {
  return one->closes == 1 && strstr(one->why, words) != NULL;
}

/* --- bytes --- */

static void what_is_appended_goes_out_in_one_piece_at_the_flush(void) {
  set_up();
  open_pair(0);
  CHECK(buffer_append(stream_out(ends[0].stream), "one ", 4));
  CHECK(buffer_append(stream_out(ends[0].stream), "two", 3));
  poller_wait(loop, 0);
  CHECK(ends[1].got.length == 0 && stream_queued(ends[0].stream) == 7);
  stream_flush(ends[0].stream);
  CHECK(stream_queued(ends[0].stream) == 0);
  WAIT_FOR(heard(&ends[1], "one two"));
  CHECK(ends[1].data_events == 1 && ends[0].drains == 0);
  tear_down();
}

static void megabytes_pass_a_tiny_socket_buffer(void) {
  enum { TOTAL = 5 << 20 };
  set_up();
  open_pair(4096);
  append_pattern(&ends[0], 0, TOTAL);
  stream_flush(ends[0].stream);
  CHECK(stream_queued(ends[0].stream) > 0 && ends[0].drains == 0);
  WAIT_FOR(ends[1].got.length == TOTAL);
  CHECK(got_pattern(&ends[1], TOTAL));
  WAIT_FOR(ends[0].drains == 1);
  CHECK(stream_queued(ends[0].stream) == 0 && stream_out(ends[0].stream)->capacity == 0);
  tear_down();
}

/* A stream whose queue never empties does not keep what it has sent. */
static void a_queue_that_never_empties_stays_small(void) {
  enum { PIECE = 100000, PIECES = 200 };
  set_up();
  open_pair(4096);
  size_t written = 0, largest = 0;
  for (int64_t until = clock_now() + INT64_C(20000000000);
       written < PIECE * PIECES && clock_now() < until;) {
    if (stream_queued(ends[0].stream) < 2 * PIECE) {
      append_pattern(&ends[0], written, PIECE);
      written += PIECE;
    }
    stream_flush(ends[0].stream);
    if (stream_out(ends[0].stream)->capacity > largest)
      largest = stream_out(ends[0].stream)->capacity;
    poller_wait(loop, 50000000);
  }
  CHECK(largest < 16 * PIECE && ends[0].drains == 0);
  WAIT_FOR(ends[1].got.length == PIECE * PIECES);
  CHECK(got_pattern(&ends[1], PIECE * PIECES));
  tear_down();
}

static void both_directions_at_once(void) {
  enum { TOTAL = 1 << 20 };
  set_up();
  open_pair(8192);
  for (int i = 0; i < 2; i++) {
    append_pattern(&ends[i], 0, TOTAL);
    stream_flush(ends[i].stream);
  }
  WAIT_FOR(ends[0].got.length == TOTAL && ends[1].got.length == TOTAL);
  CHECK(got_pattern(&ends[0], TOTAL) && got_pattern(&ends[1], TOTAL));
  tear_down();
}

static void pieces_of_one_byte_arrive_in_order(void) {
  set_up();
  open_pair(0);
  for (size_t i = 0; i < 300; i++) {
    append_pattern(&ends[0], i, 1);
    stream_flush(ends[0].stream);
    if (i % 7 == 0) poller_wait(loop, 0);
  }
  WAIT_FOR(ends[1].got.length == 300);
  CHECK(got_pattern(&ends[1], 300));
  tear_down();
}

static void large_reads_go_where_the_owner_says(void) {
  enum { TOTAL = 3 << 20 };
  set_up();
  open_pair(0);
  ends[1].offered = TOTAL - 10;
  append_pattern(&ends[0], 0, TOTAL);
  stream_flush(ends[0].stream);
  WAIT_FOR(ends[1].got.length == TOTAL);
  CHECK(got_pattern(&ends[1], TOTAL) && ends[1].stored > 0 && ends[1].data_events == 1);
  tear_down();
}

/* --- bytes that are sent from where they are --- */

/* Bytes `from` … `from + count` of the pattern; the caller frees them. */
static char *pattern_new(size_t from, size_t count) {
  char *bytes = malloc(count);
  for (size_t i = 0; i < count; i++) bytes[i] = (char)(uint8_t)((from + i) * 31 + (from + i) / 251);
  return bytes;
}

/* Sends a pattern of three parts of which the middle one is left out of the buffer. */
static void flush_around(peer *one, size_t before, size_t middle, size_t behind) {
  char *bytes = pattern_new(before, middle);
  append_pattern(one, 0, before);
  append_pattern(one, before + middle, behind);
  CHECK(buffer_reserve(stream_out(one->stream), middle));
  const hole hole = {bytes, middle, before};
  stream_flush_around(one->stream, &hole);
  memset(bytes, '?', middle); /* nobody looks at them any more */
  free(bytes);
}

static void passes_around(size_t buffer_bytes, size_t before, size_t middle, size_t behind) {
  set_up();
  open_pair(buffer_bytes);
  CHECK(stream_is_clear(ends[0].stream));
  flush_around(&ends[0], before, middle, behind);
  append_pattern(&ends[0], before + middle + behind, 1000);
  stream_flush(ends[0].stream);
  size_t total = before + middle + behind + 1000;
  WAIT_FOR(ends[1].got.length == total);
  CHECK(got_pattern(&ends[1], total));
  WAIT_FOR(stream_is_clear(ends[0].stream) && !stream_queued(ends[0].stream));
  CHECK(stream_out(ends[0].stream)->capacity <= 1 << 16);
  tear_down();
}

static void bytes_elsewhere_go_out_in_their_place(void) {
  static const size_t sizes[] = {0, 1, 20, 5000, 300000, 3 << 20};
  enum { SIZES = sizeof sizes / sizeof *sizes };
  for (int buffer = 0; buffer < 2; buffer++)
    for (int before = 0; before < SIZES - 1; before++)
      for (int middle = 1; middle < SIZES; middle++)
        passes_around(buffer ? 4096 : 1 << 20, sizes[before], sizes[middle], sizes[before]);
}

/* What a stream that failed still has begins where a message does. */
static void the_rest_of_what_began_elsewhere_is_no_message(void) {
  size_t length, sent;
  set_up();
  open_pair(4096);
  flush_around(&ends[0], 20, 1 << 20, 5);
  CHECK(!stream_is_clear(ends[0].stream) && stream_queued(ends[0].stream) > 0);
  stream_unsent(ends[0].stream, &length, &sent);
  CHECK(length == 0 && sent == 0);
  CHECK(buffer_append(stream_out(ends[0].stream), "the next", 8));
  const uint8_t *unsent = stream_unsent(ends[0].stream, &length, &sent);
  CHECK(length == 8 && sent == 0 && !memcmp(unsent, "the next", 8));
  let_go(&ends[1]);
  WAIT_FOR(ends[0].closes == 1);
  unsent = stream_unsent(ends[0].stream, &length, &sent);
  CHECK(length == 8 && sent == 0 && !memcmp(unsent, "the next", 8));
  tear_down();
}

enum { MESSAGE = 1000 /* bytes, the first of which is an M */, MESSAGES = 500 };

static size_t on_forget(void *owner, const uint8_t *data, size_t sent) {
  peer *one = owner;
  one->forgotten++;
  CHECK(sent > 0 && data[0] == 'M');
  return sent - sent % MESSAGE;
}

static void append_messages(peer *one) {
  buffer *out = stream_out(one->stream);
  CHECK(buffer_reserve(out, MESSAGES * MESSAGE));
  for (size_t i = 0; i < MESSAGES * MESSAGE; i++)
    out->data[out->length++] = i % MESSAGE ? (uint8_t)(i / MESSAGE) : 'M';
}

static void what_is_forgotten_begins_behind_what_began_elsewhere(void) {
  enum { LARGE = 1 << 20 };
  stream_events events = all_events;
  int fds[2];
  set_up();
  events.on_forget = on_forget;
  CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds));
  ends[0].stream = stream_open(loop, &scratch, fds[0], 4096, &events, &ends[0]);
  open_end(&ends[1], fds[1], 4096);
  flush_around(&ends[0], 20, LARGE, 5);
  append_messages(&ends[0]);
  WAIT_FOR(ends[1].got.length == LARGE + 25 + MESSAGES * MESSAGE);
  CHECK(ends[0].forgotten > 0);
  for (size_t i = 0; i < MESSAGES * MESSAGE; i++)
    if (ends[1].got.data[LARGE + 25 + i] != (i % MESSAGE ? (uint8_t)(i / MESSAGE) : 'M')) {
      CHECK(!"the messages are whole");
      break;
    }
  ends[1].got.length = LARGE + 25;
  CHECK(got_pattern(&ends[1], LARGE + 25));
  tear_down();
}

/* Nothing went out: all of it may go out on another link. */
static void what_could_not_begin_is_kept_whole(void) {
  size_t length, sent;
  set_up();
  open_pair(0);
  let_go(&ends[1]);
  flush_around(&ends[0], 20, 100000, 5);
  CHECK(ends[0].closes == 0 && !stream_is_clear(ends[0].stream));
  const uint8_t *unsent = stream_unsent(ends[0].stream, &length, &sent);
  CHECK(length == 100025 && sent == 0);
  char *whole = pattern_new(0, 100025);
  CHECK(!memcmp(unsent, whole, 100025));
  free(whole);
  WAIT_FOR(ends[0].closes == 1);
  tear_down();
}

/* --- ends --- */

static void the_end_comes_after_the_data(void) {
  set_up();
  open_pair(0);
  append_pattern(&ends[0], 0, 150000);
  stream_flush(ends[0].stream);
  let_go(&ends[0]); /* tries the rest, if any, once more */
  WAIT_FOR(ends[1].closes);
  CHECK(got_pattern(&ends[1], 150000));
  CHECK(ends[1].status == LP_UNAVAILABLE && says(&ends[1], "closed by peer"));
  poller_wait(loop, 0);
  CHECK(ends[1].closes == 1);
  tear_down();
}

static void unflushed_bytes_are_sent_when_freed(void) {
  set_up();
  open_pair(0);
  CHECK(buffer_append(stream_out(ends[0].stream), "last words", 10));
  let_go(&ends[0]);
  WAIT_FOR(ends[1].closes);
  CHECK(heard(&ends[1], "last words"));
  tear_down();
}

/* The other side closed with our bytes unread; no SIGPIPE, no call back from the flush. */
static void writing_to_a_peer_that_is_gone_reports_from_the_poller(void) {
  set_up();
  open_pair(0);
  say(&ends[1], "kept");
  let_go(&ends[1]);
  for (int i = 0; i < 3; i++) say(&ends[0], "lost");
  CHECK(ends[0].closes == 0 && stream_queued(ends[0].stream) == 0);
  WAIT_FOR(ends[0].closes);
  CHECK(heard(&ends[0], "kept") && ends[0].status == LP_UNAVAILABLE);
  say(&ends[0], "ignored");
  CHECK(stream_queued(ends[0].stream) == 0);
  tear_down();
}

static void a_peer_that_stops_reading_for_good_ends_the_stream(void) {
  set_up();
  open_pair(0);
  shutdown(stream_fd(ends[1].stream), SHUT_RD);
  say(&ends[0], "lost");
  WAIT_FOR(says(&ends[0], "closed by peer"));
  tear_down();
}

static void unread_bytes_at_the_peer_mean_a_reset(void) {
  set_up();
  open_pair(0);
  say(&ends[0], "unread");
  let_go(&ends[1]);
  WAIT_FOR(says(&ends[0], "reset by peer"));
  tear_down();
}

static void the_owner_may_free_within(int plan, int events) {
  set_up();
  open_pair(4096);
  ends[1].plan = plan;
  append_pattern(&ends[0], 0, events == 2 ? 1000000 : 1000);
  stream_flush(ends[0].stream);
  if (events == 1) let_go(&ends[0]);
  WAIT_FOR(!ends[1].stream);
  if (ends[0].stream) WAIT_FOR(ends[0].closes == 1);
  tear_down();
}

static void the_owner_may_free_within_on_data(void) {
  the_owner_may_free_within(FREE_ON_DATA, 0);
  the_owner_may_free_within(FREE_ON_DATA, 2);
}

static void the_owner_may_free_within_on_close(void) {
  the_owner_may_free_within(FREE_ON_CLOSE, 1);
}

static void the_owner_may_free_within_on_drained(void) {
  set_up();
  open_pair(4096);
  ends[0].plan = FREE_ON_DRAINED;
  append_pattern(&ends[0], 0, 1000000);
  stream_flush(ends[0].stream);
  WAIT_FOR(ends[1].closes == 1);
  CHECK(!ends[0].stream && got_pattern(&ends[1], 1000000));
  tear_down();
}

static void the_owner_may_free_within_on_open(void) {
  set_up();
  serve();
  ends[0].plan = FREE_ON_OPEN;
  CHECK(dial(&ends[0]));
  WAIT_FOR(!ends[0].stream && ends[0].opens == 1);
  tear_down();
}

static void a_stream_that_cannot_be_watched_ends_after_its_data(void) {
  set_up();
  open_pair(0);
  append_pattern(&ends[0], 0, 100000);
  stream_flush(ends[0].stream);
  epoll_ctl_error = ENOSPC;
  WAIT_FOR(ends[1].closes == 1);
  epoll_ctl_error = 0;
  CHECK(got_pattern(&ends[1], 100000) && ends[1].status == LP_RESOURCE_EXHAUSTED);
  tear_down();
}

/* --- connecting --- */

static void exchange(void) {
  CHECK(dial(&ends[0]));
  CHECK(ends[0].opens == 0);
  say(&ends[0], "hello "); /* waits until it is open */
  WAIT_FOR(ends[0].opens == 1 && accepted_count == 1);
  say(&ends[0], "there");
  open_end(&ends[1], accepted[--accepted_count], 1 << 16);
  WAIT_FOR(heard(&ends[1], "hello there"));
  say(&ends[1], "and back");
  WAIT_FOR(heard(&ends[0], "and back"));
  CHECK(ends[0].opens == 1 && ends[1].opens == 0);
}

static void connects_over_a_unix_socket(void) {
  set_up();
  serve();
  exchange();
  tear_down();
}

static void connects_over_tcp_to_the_port_that_was_bound(void) {
  set_up();
  CHECK(address_parse("tcp:127.0.0.1:0", &at, &why) == LP_OK);
  serve();
  CHECK(at.port != 0);
  exchange();
  tear_down();
}

static void fails_to_connect(lp_status status, const char *words) {
  CHECK(dial(&ends[0]));
  say(&ends[0], "never sent");
  CHECK(ends[0].closes == 0);
  WAIT_FOR(ends[0].closes == 1);
  CHECK(ends[0].opens == 0 && ends[0].status == status);
  CHECK(says(&ends[0], words) && says(&ends[0], "cannot connect to "));
}

static void a_missing_path_is_told_by_the_poller(void) {
  set_up();
  fails_to_connect(LP_UNAVAILABLE, "/socket: No such file or directory");
  CHECK(strstr(ends[0].why, "unix:/tmp/lp-test-") != NULL);
  tear_down();
}

static void a_refused_unix_connection_is_told_by_the_poller(void) {
  set_up();
  serve();
  listener_free(server);
  server = NULL;
  ends[0].plan = FREE_ON_CLOSE;
  fails_to_connect(LP_UNAVAILABLE, "refused");
  tear_down();
}

static void a_refused_tcp_connection_is_told_by_the_poller(void) {
  set_up();
  CHECK(address_parse("tcp:127.0.0.1:0", &at, &why) == LP_OK);
  serve();
  listener_free(server);
  server = NULL;
  fails_to_connect(LP_UNAVAILABLE, "refused");
  tear_down();
}

static void a_full_queue_is_told_by_the_poller(void) {
  set_up();
  int fd = -1;
  CHECK(listener_bind(&at, &fd, NULL, &why) == LP_OK);
  listen(fd, 0); /* nobody accepts: one waits, the next finds no room */
  CHECK(dial(&ends[1]));
  WAIT_FOR(ends[1].opens == 1);
  fails_to_connect(LP_UNAVAILABLE, "too many are waiting");
  close(fd);
  tear_down();
}

static void what_cannot_even_begin_gives_no_stream(void) {
  set_up();
  memset(at.name, 'x', 108);
  CHECK(!dial(&ends[0]) && why.status == LP_INVALID_ARGUMENT && strstr(why.text, "108 bytes"));
  at.kind = ADDRESS_INPROC;
  CHECK(!dial(&ends[0]) && why.status == LP_INVALID_ARGUMENT);
  tear_down();
}

static void freeing_while_connecting_is_quiet(void) {
  set_up();
  CHECK(dial(&ends[0]));
  let_go(&ends[0]);
  poller_wait(loop, 0);
  CHECK(ends[0].opens + ends[0].closes == 0);
  tear_down();
}

/* --- listening --- */

static int flags_of(int fd) {
  return (fcntl(fd, F_GETFD) & FD_CLOEXEC ? 1 : 0) + (fcntl(fd, F_GETFL) & O_NONBLOCK ? 2 : 0);
}

static void every_descriptor_is_private_and_does_not_block(void) {
  set_up();
  int fd = -1;
  mode_t mask = umask(0);
  CHECK(listener_bind(&at, &fd, NULL, &why) == LP_OK);
  umask(mask);
  struct stat status;
  CHECK(!stat(at.name, &status) && (status.st_mode & 07777) == 0600);
  CHECK(flags_of(fd) == 3);
  server = listener_new(loop, fd, on_accept, NULL);
  CHECK(dial(&ends[0]));
  WAIT_FOR(accepted_count == 1);
  CHECK(flags_of(stream_fd(ends[0].stream)) == 3 && flags_of(accepted[0]) == 3);
  tear_down();
}

static void a_stale_socket_is_replaced(void) {
  set_up();
  serve();
  listener_free(server); /* as after kill -9: the file stays */
  CHECK(access(at.name, F_OK) == 0);
  serve();
  exchange();
  tear_down();
}

enum { RIVALS = 8, ROUNDS = 100 };

static pthread_barrier_t gate;

static void *bind_as_rival(void *result) {
  int *fd = result;
  *fd = -1;
  pthread_barrier_wait(&gate);
  listener_bind(&at, fd, NULL, NULL);
  return NULL;
}

/* Several find the same stale file: one gets the address, the others are told. */
static int rivals_that_bound(void) {
  pthread_t threads[RIVALS];
  int fds[RIVALS], bound = 0;
  for (int i = 0; i < RIVALS; i++) pthread_create(&threads[i], NULL, bind_as_rival, &fds[i]);
  for (int i = 0; i < RIVALS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < RIVALS; i++) bound += fds[i] >= 0;
  for (int i = 0; i < RIVALS; i++)
    if (fds[i] >= 0) close(fds[i]);
  return bound;
}

static void of_rivals_for_a_stale_socket_one_gets_it(void) {
  set_up();
  pthread_barrier_init(&gate, NULL, RIVALS);
  for (int round = 0; round < ROUNDS; round++) CHECK(rivals_that_bound() == 1);
  pthread_barrier_destroy(&gate);
  tear_down();
}

static void a_socket_that_answers_is_left_alone(void) {
  set_up();
  serve();
  int fd = -1;
  CHECK(listener_bind(&at, &fd, NULL, &why) == LP_ALREADY_EXISTS && fd == -1);
  CHECK(strstr(why.text, at.name) != NULL);
  WAIT_FOR(accepted_count == 1); /* the probe */
  close(accepted[--accepted_count]);
  exchange();
  tear_down();
}

static void a_file_that_is_no_socket_is_left_alone(void) {
  set_up();
  int file = open(at.name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600), fd = -1;
  CHECK(write(file, "precious", 8) == 8);
  close(file);
  CHECK(listener_bind(&at, &fd, NULL, &why) == LP_ALREADY_EXISTS);
  struct stat status;
  CHECK(!stat(at.name, &status) && status.st_size == 8);
  tear_down();
}

static void binding_says_what_is_wrong(void) {
  set_up();
  int fd = -1;
  address bad = at;
  snprintf(bad.name, sizeof bad.name, "%s/none/socket", folder);
  CHECK(listener_bind(&bad, &fd, NULL, &why) == LP_NOT_FOUND && strstr(why.text, bad.name));
  memset(bad.name, 'x', 108);
  CHECK(listener_bind(&bad, &fd, NULL, &why) == LP_INVALID_ARGUMENT);
  CHECK(address_parse("tcp:192.0.2.1:0", &bad, &why) == LP_OK);
  CHECK(listener_bind(&bad, &fd, NULL, &why) == LP_INVALID_ARGUMENT);
  bad.kind = ADDRESS_INPROC;
  CHECK(listener_bind(&bad, &fd, NULL, NULL) == LP_INVALID_ARGUMENT);
  CHECK(fd == -1);
  tear_down();
}

static void a_port_in_use_is_told(void) {
  set_up();
  CHECK(address_parse("tcp:127.0.0.1:0", &at, &why) == LP_OK);
  serve();
  int fd = -1;
  CHECK(listener_bind(&at, &fd, NULL, &why) == LP_ALREADY_EXISTS && fd == -1);
  tear_down();
}

static void a_path_of_107_bytes_is_served(void) {
  set_up();
  size_t length = strlen(at.name);
  memset(at.name + length, 'x', 107 - length);
  serve();
  exchange();
  tear_down();
}

static void free_listener(void *owner, int fd) {
  (void)owner;
  accepted[accepted_count++] = fd;
  listener_free(server);
  server = NULL;
}

static void a_listener_may_be_freed_by_its_callback(void) {
  set_up();
  int fd = -1;
  CHECK(listener_bind(&at, &fd, NULL, &why) == LP_OK);
  server = listener_new(loop, fd, free_listener, NULL);
  CHECK(dial(&ends[0]) && dial(&ends[1]));
  WAIT_FOR(accepted_count == 1 && ends[1].closes == 1);
  tear_down();
}

static void a_listener_of_what_does_not_listen_does_not_spin(void) {
  set_up();
  server = listener_new(loop, socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), on_accept, NULL);
  WAIT_FOR(listener_paused(server));
  CHECK(!listener_new(loop, open("/dev/null", O_RDONLY | O_CLOEXEC), on_accept, NULL));
  tear_down();
}

static int first_free_descriptor(void) {
  int fd = dup(0);
  close(fd);
  return fd;
}

static void out_of_descriptors_the_listener_pauses(void) {
  set_up();
  serve();
  CHECK(dial(&ends[0]));
  WAIT_FOR(ends[0].opens == 1 || accepted_count == 1);
  WAIT_FOR(accepted_count == 1);
  CHECK(dial(&ends[1]));
  struct rlimit old, few;
  getrlimit(RLIMIT_NOFILE, &old);
  few = old;
  few.rlim_cur = (rlim_t)first_free_descriptor();
  setrlimit(RLIMIT_NOFILE, &few);
  WAIT_FOR(listener_paused(server));
  for (int i = 0; i < 10; i++) poller_wait(loop, 0);
  CHECK(accepted_count == 1);
  peer third = {0};
  CHECK(!dial(&third) && why.status == LP_RESOURCE_EXHAUSTED);
  setrlimit(RLIMIT_NOFILE, &old);
  listener_resume(server);
  CHECK(!listener_paused(server));
  WAIT_FOR(accepted_count == 2);
  tear_down();
}

static int count_opens(const peer *many) {
  int opens = 0;
  for (int i = 0; i < MANY; i++) opens += many[i].opens;
  return opens;
}

static int count_closes(const peer *many) {
  int closes = 0;
  for (int i = 0; i < MANY; i++) closes += many[i].closes;
  return closes;
}

static void allow_descriptors(rlim_t count) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= count) return;
  limit.rlim_cur = count < limit.rlim_max ? count : limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

static void a_thousand_connections(void) {
  set_up();
  allow_descriptors(2 * MANY + 100);
  serve();
  peer *many = calloc(MANY, sizeof *many);
  for (int i = 0; i < MANY; i++) {
    CHECK(dial(&many[i]));
    say(&many[i], "x");
  }
  WAIT_FOR(accepted_count == MANY && count_opens(many) == MANY);
  char byte;
  for (int i = 0; i < MANY; i++) CHECK(recv(accepted[i], &byte, 1, 0) == 1);
  while (accepted_count) close(accepted[--accepted_count]);
  WAIT_FOR(count_closes(many) == MANY);
  for (int i = 0; i < MANY; i++) end_peer(&many[i]);
  free(many);
  tear_down();
}

int main(void) {
  RUN(what_is_appended_goes_out_in_one_piece_at_the_flush);
  RUN(megabytes_pass_a_tiny_socket_buffer);
  RUN(a_queue_that_never_empties_stays_small);
  RUN(both_directions_at_once);
  RUN(pieces_of_one_byte_arrive_in_order);
  RUN(large_reads_go_where_the_owner_says);
  RUN(bytes_elsewhere_go_out_in_their_place);
  RUN(the_rest_of_what_began_elsewhere_is_no_message);
  RUN(what_is_forgotten_begins_behind_what_began_elsewhere);
  RUN(what_could_not_begin_is_kept_whole);
  RUN(the_end_comes_after_the_data);
  RUN(unflushed_bytes_are_sent_when_freed);
  RUN(writing_to_a_peer_that_is_gone_reports_from_the_poller);
  RUN(a_peer_that_stops_reading_for_good_ends_the_stream);
  RUN(unread_bytes_at_the_peer_mean_a_reset);
  RUN(the_owner_may_free_within_on_data);
  RUN(the_owner_may_free_within_on_close);
  RUN(the_owner_may_free_within_on_drained);
  RUN(the_owner_may_free_within_on_open);
  RUN(a_stream_that_cannot_be_watched_ends_after_its_data);
  RUN(connects_over_a_unix_socket);
  RUN(connects_over_tcp_to_the_port_that_was_bound);
  RUN(a_missing_path_is_told_by_the_poller);
  RUN(a_refused_unix_connection_is_told_by_the_poller);
  RUN(a_refused_tcp_connection_is_told_by_the_poller);
  RUN(a_full_queue_is_told_by_the_poller);
  RUN(what_cannot_even_begin_gives_no_stream);
  RUN(freeing_while_connecting_is_quiet);
  RUN(every_descriptor_is_private_and_does_not_block);
  RUN(a_stale_socket_is_replaced);
  RUN(of_rivals_for_a_stale_socket_one_gets_it);
  RUN(a_socket_that_answers_is_left_alone);
  RUN(a_file_that_is_no_socket_is_left_alone);
  RUN(binding_says_what_is_wrong);
  RUN(a_port_in_use_is_told);
  RUN(a_path_of_107_bytes_is_served);
  RUN(a_listener_may_be_freed_by_its_callback);
  RUN(a_listener_of_what_does_not_listen_does_not_spin);
  RUN(out_of_descriptors_the_listener_pauses);
  RUN(a_thousand_connections);
  return TEST_END();
}
