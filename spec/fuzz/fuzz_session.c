/* See fuzz.h. The first byte chooses who sends the bytes to a node: a stranger over a socket, an
 * engine over a link in memory, or the server that the node itself has called; the second how
 * they are cut. Only the node's own loop is turned: what happens depends on the bytes alone. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../c/harness.h"
#include "fuzz.h"
#include "rpc/server.h"

enum { STRANGER, ENGINE, SERVER, ROLES, HEADER = 2, TURNS = 6 };

enum { BYTES_PER_BYTE = 400, BYTES_ALWAYS = 4 << 20 }; /* answers are held as well */

static const char server[] =
    "core.serve({echo = function(self, ...) return ... end,"
    "  fail = function(self, ...) error(...) end,"
    "  slow = function(self, s) core.sleep(s) return s end,"
    "  deep = function(self, n) local t = {} for i = 2, n do t = {t} end return t end,"
    "  call = function(self, client, ...) return client:echo(...) end,"
    "  later = function(self) self.reply = core.defer_reply() end,"
    "  now = function(self, ...) if self.reply then self.reply:ok(...) end end})"
    " core.park()";

/* Calls what listens at the path in `...`; go() has three calls under way, stop() ends them. */
static const char caller[] =
    "core.connector(function(client) core.dial(client, path) end)"
    " local futures, serial = nil, 0"
    " function go() serial = serial + 1" /* another one each time: none that is waited for */
    "  local fake = core.client('fake' .. serial, 'fake')"
    "  futures = {fake.futures:one(1), fake.futures:two('x', {}), fake.futures:three()}"
    "  core.with(fake, {wait_for_ready = false}).notify:four(4) end"
    " function stop() for _, f in ipairs(futures) do if not f:done() then f:cancel() end"
    "  assert(f:done()) end futures = nil collectgarbage() end"
    " core.serve({echo = function(self, ...) return ... end})"
    " core.park()";

static harness at;
static node *serving, *calling;
static int listening, base_tasks;
static char path[64];

/* Ends of what is being talked to. */
static int fd = -1;
static pipe_end *end_here;

static void turn(int times) {
  for (int i = 0; i < times; i++) loop_turn(at.loop, 0);
}

static void remove_path(void) {
  unlink(path);
}

static int listen_at_path(void) {
  struct sockaddr_un where = {.sun_family = AF_UNIX};
  snprintf(path, sizeof path, "/tmp/lp-fuzz-%d", (int)getpid());
  snprintf(where.sun_path, sizeof where.sun_path, "%s", path);
  int made = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  unlink(path);
  FUZZ_CHECK(made >= 0 && !bind(made, (struct sockaddr *)&where, sizeof where) && !listen(made, 8));
  atexit(remove_path);
  return made;
}

static void open_world(void) {
  static char text[sizeof caller + sizeof path + 32];
  harness_begin(&at);
  listening = listen_at_path();
  snprintf(text, sizeof text, "path = 'unix:%s' %s", path, caller);
  serving = harness_node(&at, "server", server);
  calling = harness_node(&at, "caller", text);
  for (int i = 0; i < 1000 && atomic_load(&serving->state) != NODE_SERVING; i++) turn(1);
  turn(TURNS);
  FUZZ_CHECK(atomic_load(&serving->state) == NODE_SERVING && !at.ended && !test_failed_now);
  base_tasks = serving->task_count;
}

/* ---- who speaks ------------------------------------------------------------- */

static void ignore_data(void *owner, const uint8_t *data, size_t length) {
  (void)owner, (void)data, (void)length;
}

static void pipe_closed(void *owner, lp_status status, const char *why) {
  (void)owner, (void)status, (void)why;
  pipe_free(end_here);
  end_here = NULL;
}

static const stream_events pipe_events = {.on_data = ignore_data, .on_close = pipe_closed};

static int run_global(lua_State *L) {
  lua_getglobal(L, lua_touserdata(L, 1));
  lua_call(L, 0, 0);
  return 0;
}

static void call_lua(node *node, const char *name) {
  fault why = {0};
  bool well = node_enter(node, run_global, (void *)name, &why);
  if (!well) fprintf(stderr, "%s: %s\n", name, why.text);
  FUZZ_CHECK(well);
}

static void dial(int role) {
  int pair[2];
  if (role == STRANGER) {
    FUZZ_CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair));
    peer_accept_fd(serving->upper, pair[0]);
    fd = pair[1];
  } else if (role == ENGINE) {
    pipe_end *there;
    FUZZ_CHECK(pipe_new(at.loop->box, at.loop->box, &end_here, &there));
    pipe_attach(end_here, &pipe_events, NULL);
    peer_accept_pipe(serving->upper, there, "an engine", TERMS_DEFAULT);
  } else {
    call_lua(calling, "go");
    turn(TURNS);
    fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    FUZZ_CHECK(fd >= 0);
  }
}

static void hang_up(void) {
  if (fd >= 0) close(fd);
  fd = -1;
  pipe_free(end_here);
  end_here = NULL;
}

/* Nobody serves those who have dialled again. */
static void refuse_more(void) {
  for (int more; (more = accept4(listening, NULL, NULL, SOCK_CLOEXEC)) >= 0; turn(2)) close(more);
}

/* Takes what comes, so that the other side can write. */
static void swallow(void) {
  static uint8_t scratch[64 << 10];
  while (fd >= 0 && recv(fd, scratch, sizeof scratch, 0) > 0) continue;
}

static void say(const uint8_t *data, size_t length) {
  if (fd >= 0) {
    ssize_t sent = send(fd, data, length, MSG_NOSIGNAL);
    (void)sent; /* it may have hung up */
  } else if (end_here) {
    buffer *out = pipe_out(end_here);
    FUZZ_CHECK(out && buffer_append(out, data, length));
    pipe_flush(end_here);
  }
  turn(1);
  swallow();
}

static void say_cut(const uint8_t *data, size_t length, unsigned seed) {
  while (length) {
    seed = seed * 1103515245 + 12345;
    size_t piece = seed & 128 ? 1 + (seed >> 16) % 9 : length;
    if (piece > length) piece = length;
    say(data, piece);
    data += piece;
    length -= piece;
  }
}

/* ---- afterwards ------------------------------------------------------------- */

static int collect(lua_State *L) {
  lua_gc(L, LUA_GCCOLLECT);
  return 0;
}

/* An honest call by a stranger. */
static void check_alive(void) {
  static const char request[] =
      "\x94\x00\x05\xa4"
      "echo\x91\x2a",
                    answer[] = "\x94\x01\x05\xc0\x2a";
  char got[64];
  ssize_t length = -1;
  dial(STRANGER);
  FUZZ_CHECK(send(fd, request, sizeof request - 1, MSG_NOSIGNAL) == sizeof request - 1);
  for (int i = 0; i < 1000 && length < 0; i++) {
    turn(1);
    length = recv(fd, got, sizeof got, 0);
  }
  FUZZ_CHECK(length == sizeof answer - 1 && !memcmp(got, answer, sizeof answer - 1));
  hang_up();
}

static int peers_of(const node *node) {
  const rpc *rpc = node->upper;
  int count = 0;
  for (const list *each = rpc->peers.next; each != &rpc->peers; each = each->next) count++;
  return count;
}

/* The handler of a notification goes on when its sender has left, and may sleep for hours. */
static void end_notified(void) {
  for (int i = 0; i < serving->task_slots; i++) {
    task *task = serving->tasks[i];
    const call *call = task && task->state != TASK_IDLE ? server_call_of(task) : NULL;
    if (call && call->notify) task_cancel(task, LP_CANCELLED, "its sender has left");
  }
}

/* Nothing is left of whoever called: no link, no task, no client that it had sent. */
static void check_clean(void) {
  end_notified();
  for (int i = 0; i < 1000 && serving->task_count > base_tasks; i++) turn(1);
  FUZZ_CHECK(serving->task_count == base_tasks);
  FUZZ_CHECK(node_enter(serving, collect, NULL, NULL));
  turn(1);
  FUZZ_CHECK(peers_of(serving) == 0);
  FUZZ_CHECK(list_empty(&((rpc *)serving->upper)->deferred));
  FUZZ_CHECK(at.ended == 0 && !test_failed_now);
}

/* Servers that did not answer are tried again while somebody waits, and then forgotten: when the
 * next try is due, which only time brings. */
static void check_forgotten(void) {
  for (int i = 0; i < 10000 && peers_of(calling); i++) {
    loop_turn(at.loop, clock_now() + 10000000);
    refuse_more();
    FUZZ_CHECK(node_enter(calling, collect, NULL, NULL));
  }
  FUZZ_CHECK(peers_of(calling) == 0);
}

void fuzz_session(const uint8_t *data, size_t length) {
  static unsigned rounds;
  if (length < HEADER) return;
  if (!serving) open_world();
  int role = data[0] % ROLES;
  size_t before = fuzz_memory_mark();
  dial(role);
  say_cut(data + HEADER, length - HEADER, data[1]);
  turn(TURNS);
  hang_up();
  turn(TURNS);
  if (role == SERVER) call_lua(calling, "stop");
  refuse_more();
  FUZZ_CHECK(fuzz_memory_peak() - before < length * BYTES_PER_BYTE + BYTES_ALWAYS);
  check_alive();
  turn(TURNS);
  check_clean();
  if (++rounds % 512 == 0) check_forgotten();
}
