/* Calls between nodes: on one loop, on two, over sockets; and what strangers may send to a
 * node's socket without harm to anybody but their own link. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "rpc/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"

static harness at;

static const char server[] =
    "core.serve({echo = function(self, ...) return ... end,"
    "  fail = function() error 'broken' end,"
    "  slow = function(self, s) core.sleep(s) return s end,"
    "  finish = function() core.exit(true, 'left') end})"
    " core.park()";

/* ---- two nodes -------------------------------------------------------------- */

static const char calls[] =
    "local server = core.client('server', 'server')"
    " assert(server:echo(1, nil, 'x', nil) == 1)"
    " assert(select('#', server:echo(1, nil, 'x', nil)) == 4)"
    " local ok, err = pcall(server.fail, server) assert(not ok and err.message:find 'broken')"
    " local futures = {} for i = 1, 3000 do futures[i] = server.futures:echo(i) end"
    " for i = 1, 3000 do assert(futures[i]:result() == i) end"
    " for i = 1, 3000 do server.notify:echo(i) end"
    " local hasty = core.with(server, {timeout = 0.001})"
    " ok, err = pcall(hasty.slow, hasty, 5) assert(not ok and err.code == 'deadline_exceeded')"
    " local late = hasty.futures:slow(5) assert(late:exception().code == 'deadline_exceeded')"
    " local gone = server.futures:slow(5) gone:cancel() assert(gone:cancelled())"
    " local big = ('x'):rep(3000000) assert(server:echo(big) == big)"
    " local pending = server.futures:slow(99)"
    " local waits = core.spawn(function() return pcall(server.slow, server, 99) end)"
    " core.yield() assert(not pcall(server.finish, server))"
    " assert(pending:exception()) assert(waits:result() == false)"
    " core.sleep(0.01) ok, err = pcall(server.echo, server) assert(err.code == 'unavailable')"
    " core.finish()";

static void check_calls(loop *other) {
  harness_node_on(other ? other : at.loop, "server", server);
  if (other) CHECK(loop_start(other, NULL) == LP_OK);
  harness_node(&at, "caller", calls);
  TURN_UNTIL(&at, at.ended == 2 || at.status != LP_OK);
  if (at.status != LP_OK) fprintf(stderr, "%s\n", at.text);
  CHECK(at.status == LP_OK);
}

static void test_nodes_of_one_loop_call_each_other(void) {
  harness_begin(&at);
  check_calls(NULL);
  harness_end(&at);
}

static void test_nodes_of_two_loops_call_each_other(void) {
  harness_begin(&at);
  loop *other = loop_new(&at.engine, "other", NULL);
  check_calls(other);
  loop_quit(other);
  loop_free(other);
  harness_end(&at);
}

/* ---- strangers -------------------------------------------------------------- */

typedef struct stranger {
  int fd; /* our end */
  uint8_t got[4096];
  size_t length;
  bool closed; /* by the node */
} stranger;

static node *host_node;

static void begin(void) {
  harness_begin(&at);
  host_node = harness_node(&at, "server", server);
  TURN_UNTIL(&at, atomic_load(&host_node->state) == NODE_SERVING);
}

static void end(void) {
  harness_kill(host_node);
  TURN_UNTIL(&at, at.ended);
  harness_end(&at);
}

static stranger dial(void) {
  int pair[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
  peer_accept_fd(host_node->upper, pair[0]);
  return (stranger){.fd = pair[1]};
}

/* Reads what there is. */
static void look(stranger *self) {
  for (;;) {
    ssize_t got = recv(self->fd, self->got + self->length, sizeof self->got - self->length, 0);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) self->closed = true;
    if (got <= 0) return;
    self->length += (size_t)got;
    if (self->length > sizeof self->got / 2) self->length = 0;
  }
}

static void say(stranger *self, const void *bytes, size_t length, size_t piece) {
  const uint8_t *next = bytes;
  while (length > 0 && !self->closed) {
    size_t step = piece < length ? piece : length;
    ssize_t sent = send(self->fd, next, step, MSG_NOSIGNAL);
    if (sent > 0) next += sent, length -= (size_t)sent;
    loop_turn(at.loop, 0);
    look(self);
    if (sent < 0 && errno != EAGAIN) return;
  }
}

static void settle(stranger *self) {
  for (int i = 0; i < 10; i++) loop_turn(at.loop, 0);
  look(self);
}

/* An honest call over a bare link of its own. */
static bool alive(void) {
  static const char request[] =
      "\x94\x00\x05\xa4"
      "echo\x91\x2a",
                    answer[] = "\x94\x01\x05\xc0\x2a";
  stranger honest = dial();
  say(&honest, request, sizeof request - 1, 3);
  TURN_UNTIL(&at, (look(&honest), honest.length >= sizeof answer - 1 || honest.closed));
  bool right = honest.length == sizeof answer - 1 && !memcmp(honest.got, answer, honest.length);
  close(honest.fd);
  return right;
}

static void test_a_stranger_may_not_send_clients(void) {
  static const char request[] =
      "\x94\x00\x05\xa4"
      "echo\x91\xc7\x03\x01"
      "a\x00"
      "a";
  begin();
  stranger self = dial();
  say(&self, request, sizeof request - 1, 64);
  TURN_UNTIL(&at, (look(&self), self.length > 4 || self.closed));
  CHECK(self.length > 4 && !memcmp(self.got, "\x94\x01\x05", 3));
  CHECK(self.length > 4 && (uint8_t)self.got[3] != 0xc0); /* an error */
  close(self.fd);
  end();
}

#define BYTES(text) (text), sizeof(text) - 1

static const struct {
  const char *bytes;
  size_t length;
  bool closes; /* the node ends the link */
} hostile[] = {
    {BYTES("GET / HTTP/1.1\r\n\r\n"), true},
    {BYTES("\x00"), true},
    {BYTES("\xc1"), true},
    {BYTES("\x93\xc1\xc1\xc1"), true},
    {BYTES("\x94\x00\x01"), false}, /* the rest never comes */
    {BYTES("\x94\x07\x01\xa1x\x90"), true},
    {BYTES("\x94\x00\x01\xa4"
           "echo\x81"),
     false},
    {BYTES("\x94\x00\x01\x05\x90"), true}, /* the method is a number */
    {BYTES("\x94\x00\x01\xa4"
           "echo\xc0"),
     false}, /* params are nil: an error comes back */
    {BYTES("\x94\x00\x01\xa4"
           "echo\x81\x01\x02"),
     false},
    {BYTES("\x94\x00\x01\xa4"
           "echo\xdd\xff\xff\xff\xff"),
     true}, /* 4 G of values */
    {BYTES("\x94\x00\x01\xa4"
           "echo\x91\xdb\xff\xff\xff\xff"),
     true},
    {BYTES("\x94\x00\x01\xa4"
           "echo\x91\xc9\xff\xff\xff\xff\x01"),
     true},
    {BYTES("\x94\x00\x01\xa7lp.eval\x91\xa1x"), false},
    {BYTES("\x94\x00\x01\xa6"
           "_index\x90"),
     false},
    {BYTES("\x94\x00\x01\xa0\x90"), false},
    {BYTES("\x94\x01\x63\xc0\x01"), false}, /* an answer nobody asked for */
    {BYTES("\x94\x01\xff\xc0\x01"), true},  /* with a negative id */
    {BYTES("\x93\x02\xa9lp.credit\x91\xcf\xff\xff\xff\xff\xff\xff\xff\xff"), false},
    {BYTES("\x93\x02\xa9lp.credit\x91\xce\xff\xff\xff\xff"), false},
    {BYTES("\x93\x02\xa9lp.cancel\x91\xce\xff\xff\xff\xff"), false},
    {BYTES("\x93\x02\xa9lp.cancel\xc0"), false},
    {BYTES("\x93\x02\xa6lp.bye\x91\xdb\x00\x00\x00\x05hello"), false},
    {BYTES("\x93\x02\xa6lp.bye\xc0"), false},
    {BYTES("\x94\x00\x00\xa8lp.hello\xc0"), false},
    {BYTES("\x94\x00\x00\xa8lp.hello\x92\xcd\x03\xe7\xa1x"), false}, /* version 999 */
    {BYTES("\x94\x00\x00\xa8lp.hello\x92\x01\xa1x\x94\x00\x00\xa8lp.hello\x92\x01\xa1x"), true},
    {BYTES("\x94\x00\x00\xa8lp.hello\x92\x01\xa1x\xc9\x00\x00\x00\x00\x20"), true},
    {BYTES("\x94\x00\x00\xa8lp.hello\x92\x01\xa1x\xc9\xff\xff\xff\xff\x20\x94\x00\x01"), false},
    {BYTES("\x94\x00\x00\xa8lp.hello\x92\x01\xa1x\xc9\x00\x00\x00\x0d\x20"
           "\x94\x00\x00\xa8lp.hello\x90"),
     true},
    {BYTES("\x94\x00\x00\xa8lp.hello\x92\x01\xa1x\xc9\x00\x00\x00\x0a\x20"
           "\x94\x00\x07\xa4"
           "echo\xc7\x00"),
     false}, /* params end too soon, within a frame that does not: an error comes back */
    {BYTES("\x94\x00\x00\xa8lp.hello\x92\x01\xa1x\xc9\x00\x00\x00\x0d\x20"
           "\x94\x00\x07\xa4"
           "echo\x91\xc7\x01\x01x"),
     false}, /* a client that is none */
};

static void check_hostile(size_t piece) {
  begin();
  for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
    stranger self = dial();
    say(&self, hostile[i].bytes, hostile[i].length, piece);
    settle(&self);
    if (self.closed != hostile[i].closes) fprintf(stderr, "hostile bytes %zu:\n", i);
    CHECK(self.closed == hostile[i].closes);
    CHECK(alive());
    close(self.fd);
  }
  settle(&(stranger){.fd = -1});
  rpc *rpc = host_node->upper;
  CHECK(list_empty(&rpc->peers)); /* nothing of them is left */
  CHECK(host_node->task_count == 1);
  end();
}

static void test_hostile_bytes_harm_only_their_own_link(void) {
  check_hostile(4096);
}

static void test_hostile_bytes_byte_by_byte(void) {
  check_hostile(1);
}

static void test_a_stranger_that_leaves_in_the_middle_of_anything(void) {
  static const char request[] =
      "\x94\x00\x05\xa4"
      "slow\x91\xcb\x3f\x50\x00\x00\x00\x00\x00\x00";
  begin();
  for (size_t length = 0; length < sizeof request; length++) {
    stranger self = dial();
    say(&self, request, length, 64);
    close(self.fd);
    loop_turn(at.loop, 0);
  }
  CHECK(alive());
  rpc *rpc = host_node->upper;
  TURN_UNTIL(&at, host_node->task_count == 1 && list_empty(&rpc->peers));
  end();
}

static void test_random_bytes(void) {
  static const char hello[] = "\x94\x00\x00\xa8lp.hello\x92\x01\xa1x";
  unsigned seed = 1;
  uint8_t noise[512];
  begin();
  for (int round = 0; round < 400; round++) {
    stranger self = dial();
    if (round % 2) say(&self, hello, sizeof hello - 1, 64);
    size_t length = (size_t)rand_r(&seed) % sizeof noise;
    for (size_t i = 0; i < length; i++) noise[i] = (uint8_t)rand_r(&seed);
    /* Often something that begins well. */
    if (round % 4 == 0 && length > 12)
      memcpy(noise,
             "\x94\x00\x01\xa4"
             "echo\x92\x81",
             10);
    if (round % 4 == 1 && length > 18)
      memcpy(noise,
             "\xc9\x00\x00\x00\x40\x20\x94\x00\x01\xa4"
             "echo\x9f",
             15);
    say(&self, noise, length, 1 + (size_t)rand_r(&seed) % 64);
    settle(&self);
    close(self.fd);
  }
  CHECK(alive());
  end();
}

int main(void) {
  RUN(test_nodes_of_one_loop_call_each_other);
  RUN(test_nodes_of_two_loops_call_each_other);
  RUN(test_a_stranger_may_not_send_clients);
  RUN(test_hostile_bytes_harm_only_their_own_link);
  RUN(test_hostile_bytes_byte_by_byte);
  RUN(test_a_stranger_that_leaves_in_the_middle_of_anything);
  RUN(test_random_bytes);
  return TEST_END();
}
