/* Clients and servers that are not as they should be: not there yet, gone again, of another kind,
 * silent, in a hurry. The servers are played by the test, frame by frame. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "harness.h"
#include "net/listener.h"
#include "rpc/connecting.h"
#include "rpc/hello.h"
#include "rpc/pending.h"
#include "wire/codec.h"
#include "wire/frame.h"

static harness at;
static node *caller;
static char folder[] = "/tmp/lp-test-XXXXXX", path[64], log_text[4096];

static void note_log(engine *engine, const event *event) {
  if (event->kind == EVENT_LOG)
    snprintf(log_text + strlen(log_text), sizeof log_text - strlen(log_text), "%s\n", event->text);
  harness_event(engine, event);
}

/* ---- a server --------------------------------------------------------------- */

typedef struct server {
  int listening, fd;
  int accepted;
  uint8_t got[1 << 16];
  size_t length;
  bool closed;
} server;

static server foreign;

static void listen_there(void) {
  address address = {.kind = ADDRESS_UNIX};
  fault why = {0};
  strcpy(address.name, path);
  CHECK(listener_bind(&address, &foreign.listening, NULL, &why) == LP_OK);
}

/* What is listened on goes; its file stays, as after a kill -9. */
static void die(void) {
  if (foreign.fd >= 0) close(foreign.fd);
  if (foreign.listening >= 0) close(foreign.listening);
  foreign.fd = foreign.listening = -1;
  foreign.length = 0;
}

static void hang_up(void) {
  close(foreign.fd);
  foreign.fd = -1;
  foreign.length = 0;
}

static bool accepts(void) {
  if (foreign.fd >= 0) return true;
  foreign.fd = accept4(foreign.listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (foreign.fd < 0) return false;
  foreign.accepted++;
  foreign.length = 0;
  foreign.closed = false;
  return true;
}

static void look(void) {
  ssize_t got = recv(foreign.fd, foreign.got + foreign.length, sizeof foreign.got - foreign.length,
                     MSG_DONTWAIT);
  if (got > 0) foreign.length += (size_t)got;
  if (got == 0) foreign.closed = true;
}

static bool hears(size_t least) {
  if (!accepts()) return false;
  look();
  return foreign.length >= least;
}

static void say(const void *bytes, size_t length) {
  CHECK(send(foreign.fd, bytes, length, MSG_NOSIGNAL) == (ssize_t)length);
}

/* Takes the greeting up and answers it. */
static const char hello[] =
    "\x94\x01\x00\xc0\x92\x01\xa3"
    "x/0";

static void greet(void) {
  TURN_UNTIL(&at, hears(12));
  foreign.length = 0;
  say(hello, sizeof hello - 1);
}

/* The next request or notification that has come whole; it is taken out. */
static bool next_frame(frame *out, char *method, size_t size) {
  fault why;
  if (foreign.fd < 0) return false;
  look();
  if (foreign.length < FRAME_PREFIX) return false;
  size_t length = FRAME_PREFIX + (((size_t)foreign.got[3] << 8) | foreign.got[4]);
  if (foreign.got[0] != 0xc9 || foreign.length < length) return false;
  CHECK(frame_parse(foreign.got + FRAME_PREFIX, length - FRAME_PREFIX, out, &why) == LP_OK);
  snprintf(method, size, "%.*s", (int)out->method_length, out->method);
  foreign.length -= length;
  memmove(foreign.got, foreign.got + length, foreign.length);
  return true;
}

static uint32_t last_id;
static char last_method[64];
static bool asked(void) {
  frame came;
  if (!next_frame(&came, last_method, sizeof last_method)) return false;
  last_id = came.id;
  return true;
}

/* Waits for the next. */
static void take(void) {
  bool came = false;
  TURN_UNTIL(&at, came || (came = asked()));
}

static void take_until(const char *method) {
  do take();
  while (strcmp(last_method, method) != 0);
}

/* Answers the request `id` with a small number. */
static void answer(uint32_t id, uint8_t value) {
  uint8_t bytes[] = {0xc9,
                     0,
                     0,
                     0,
                     9,
                     CODEC_EXT_FRAME,
                     0x94,
                     0x01,
                     0xce,
                     (uint8_t)(id >> 24),
                     (uint8_t)(id >> 16),
                     (uint8_t)(id >> 8),
                     (uint8_t)id,
                     0xc0,
                     0x91};
  bytes[4] = sizeof bytes - FRAME_PREFIX + 1;
  uint8_t whole[sizeof bytes + 1];
  memcpy(whole, bytes, sizeof bytes);
  whole[sizeof bytes] = value;
  say(whole, sizeof whole);
}

/* ---- a client --------------------------------------------------------------- */

/* Runs `text` in a node that has the client `c` of our path. What it notes it prints. */
static void begin(const char *text) {
  char whole[4096];
  harness_begin(&at);
  at.engine.on_event = note_log;
  *log_text = 0;
  foreign = (server){.listening = -1, .fd = -1};
  snprintf(whole, sizeof whole,
           "local c = core.client('unix:%s', 'unix:%s') local hasty = core.with(c, "
           "{wait_for_ready = false}) %s core.finish()",
           path, path, text);
  caller = harness_node(&at, "caller", whole);
}

/* Until the node has ended, and well. */
static void finish(void) {
  TURN_UNTIL(&at, at.ended);
  if (at.status != LP_OK) fprintf(stderr, "%s\n", at.text);
  CHECK(at.status == LP_OK);
}

static void end(void) {
  if (!at.ended) {
    harness_kill(caller);
    TURN_UNTIL(&at, at.ended);
  }
  die();
  unlink(path);
  harness_end(&at);
}

static void turn(int times) {
  for (int i = 0; i < times; i++) loop_turn(at.loop, clock_now() + 1000000);
}

/* The one peer of the caller that dials our path. */
static peer *dialling(void) {
  rpc *rpc = caller->upper;
  for (list *each = rpc->peers.next; each != &rpc->peers; each = each->next) {
    peer *found = list_entry(each, peer, link);
    if (found->target && strstr(found->target, path)) return found;
  }
  return NULL;
}

static peer_state state(void) {
  peer *found = dialling();
  return found ? found->state : PEER_IDLE;
}

/* ---- not there yet ---------------------------------------------------------- */

static void test_a_call_waits_for_a_server_that_comes_later(void) {
  begin("assert(c:first() == 1)");
  TURN_UNTIL(&at, state() == PEER_WAITING);
  CHECK(strstr(dialling()->end_text, "failed to connect to unix:") != NULL);
  listen_there();
  greet();
  take();
  answer(last_id, 1);
  finish();
  end();
}

static void test_a_server_killed_and_started_again_is_found(void) {
  begin(
      "assert(c:first() == 1) core.sleep(0.001)"
      " local ok, err = pcall(c.second, c) assert(not ok and err.code == 'unavailable')"
      " assert(c:third() == 3)");
  listen_there();
  greet();
  take();
  answer(last_id, 1);
  take();
  die(); /* the file stays */
  TURN_UNTIL(&at, state() == PEER_WAITING);
  listen_there();
  greet();
  take();
  CHECK(strcmp(last_method, "third") == 0); /* what had been sent does not come again */
  answer(last_id, 3);
  finish();
  CHECK(foreign.accepted == 2);
  end();
}

static void test_a_call_given_up_meanwhile_is_not_sent(void) {
  begin(
      "local brief, future = core.with(c, {timeout = 0.01}), c.futures:first()"
      " repeat core.sleep(0.001) until core.connection_state(c) == 'transient_failure'"
      " local ok, err = pcall(brief.second, brief)"
      " assert(err.code == 'deadline_exceeded' and err.message:find 'failed to connect', err)"
      " future:cancel() c.notify:third() core.print 'given up' assert(c:fourth() == 4)");
  TURN_UNTIL(&at, strstr(at.output, "given up"));
  listen_there();
  greet();
  take();
  CHECK(strcmp(last_method, "third") == 0);
  take();
  CHECK(strcmp(last_method, "fourth") == 0);
  answer(last_id, 4);
  finish();
  end();
}

static void test_a_hasty_call_fails_at_once_and_a_patient_one_waits_on(void) {
  begin(
      "local waits = c.futures:first()"
      " for i = 1, 3 do local ok, err = pcall(hasty.second, hasty)"
      "   assert(err.code == 'unavailable' and err.message:find '^failed to connect to unix:', "
      "err) end"
      " repeat core.sleep(0.003) until pcall(hasty.notify.fourth, hasty.notify) core.sleep(0.02)"
      " repeat core.sleep(0.001) until core.connection_state(c) == 'transient_failure'"
      " assert(not waits:done())"
      " core.print 'failed' assert(waits:result() == 1)");
  TURN_UNTIL(&at, strstr(at.output, "failed"));
  TURN_UNTIL(&at, strstr(log_text, "1 notification was not sent: failed to connect to unix:"));
  listen_there();
  greet();
  take();
  CHECK(strcmp(last_method, "first") == 0);
  answer(last_id, 1);
  finish();
  end();
}

static void test_who_has_waited_long_says_so_once(void) {
  begin("c.futures:first() core.sleep(60)");
  TURN_UNTIL(&at, state() == PEER_WAITING && dialling()->connecting);
  connecting *waits = dialling()->connecting;
  waits->tries.notice_at = 0;
  TURN_UNTIL(&at, strstr(log_text, "has waited 10 s for unix:"));
  CHECK(strstr(log_text, "failed to connect to unix:") != NULL);
  size_t said = strlen(log_text);
  turn(50);
  CHECK(strlen(log_text) == said);
  end();
}

/* FIELD H15: what waits for a link when its node ends is let go of, whatever waits for it. */
static void test_calls_that_wait_when_their_node_ends_are_let_go(void) {
  begin(
      "c.futures:first() c.notify:second() core.spawn(function() c:third() end)"
      " local brief = core.with(c, {timeout = 60}) brief.futures:fourth() core.sleep(60)");
  TURN_UNTIL(&at, state() == PEER_WAITING && dialling()->connecting->early.live == 4);
  end();
  CHECK(strstr(log_text, "1 notification was not sent") != NULL);
}

/* ---- gone again ------------------------------------------------------------- */

/* FIELD H13: the answer wins over the close, also when the close loses what was under way. */
static void test_an_answer_followed_at_once_by_a_close_counts(void) {
  begin("for i = 1, 100 do c.notify:noise() end assert(c:first() == 7)");
  listen_there();
  greet();
  take_until("first");
  answer(last_id, 7);
  die();
  finish();
  end();
}

/* FIELD H19: an answer that comes after its call was given up is dropped by its id. */
static void test_a_late_answer_does_not_reach_the_next_call(void) {
  begin(
      "local brief = core.with(c, {timeout = 0.01})"
      " local ok, err = pcall(brief.first, brief) assert(err.code == 'deadline_exceeded')"
      " core.print 'late' assert(c:second() == 2)");
  listen_there();
  greet();
  take();
  uint32_t first = last_id;
  TURN_UNTIL(&at, strstr(at.output, "late"));
  take_until("second"); /* behind the cancel */
  CHECK(last_id != first);
  answer(first, 1);
  answer(last_id, 2);
  finish();
  end();
}

/* A link that breaks while its socket is full: what had begun to be sent fails, the rest goes
 * out on the next link, each once and in order. */
static void test_what_was_not_sent_goes_to_the_next_link(void) {
  begin(
      "local first = c:first() local ok, failed, futures = nil, 0, {}"
      " for i = 1, 1000 do futures[i] = c.futures:work(i, ('x'):rep(20000)) end"
      " core.print 'written'"
      " for i = 1, 1000 do local err = futures[i]:exception()"
      "   if err then assert(err.code == 'unavailable' and failed == i - 1, err) failed = i"
      "   else assert(futures[i]:result() == i % 100) end end"
      " assert(failed > 0 and failed < 1000) core.print('failed ' .. failed)");
  listen_there();
  greet();
  take();
  uint32_t first = last_id;
  answer(first, 1);
  TURN_UNTIL(&at, strstr(at.output, "written"));
  turn(5);
  CHECK(link_queued(&dialling()->wire) > 0);
  hang_up();
  greet();
  uint32_t before = 0;
  for (int seen = 0; !at.ended && seen < 1000; seen++) {
    bool came = false;
    TURN_UNTIL(&at, came || at.ended || (came = asked()));
    if (!came) break;
    CHECK(strcmp(last_method, "work") == 0);
    CHECK(!before || last_id == before + 1);
    before = last_id;
    answer(last_id, (uint8_t)((last_id - first) % 100));
  }
  finish();
  CHECK(strstr(at.output, "failed ") != NULL);
  end();
}

/* ---- of another kind -------------------------------------------------------- */

/* FIELD H23. */
static void check_refused(const char *bytes, const char *words) {
  char text[1024];
  snprintf(text, sizeof text,
           "local ok, err = pcall(c.first, c)"
           " assert(not ok and err.code == 'failed_precondition', err.code)"
           " assert(err.message:find('unix:', 1, true) and err.message:find('%s', 1, true),"
           "   err.message) core.sleep(0.03)",
           words);
  begin(text);
  listen_there();
  TURN_UNTIL(&at, hears(12));
  say(bytes, strlen(bytes));
  finish();
  CHECK(foreign.accepted == 1); /* no loop */
  end();
}

static void test_a_server_of_another_kind_is_refused_with_a_text(void) {
  check_refused("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "does not speak");
  check_refused("SSH-2.0-OpenSSH_9.2p1\r\n", "does not speak");
  check_refused("+PONG\r\n", "does not speak");
  check_refused("\x94\x01\x01\xa5wrong\xc0", "does not speak");
  check_refused("\x94\x01\x05\xc0\x91\x01", "does not speak");
}

static void test_a_server_of_another_version_is_refused_with_a_text(void) {
  begin(
      "local ok, err = pcall(c.first, c)"
      " assert(err.code == 'failed_precondition' and err.message:find 'version 7', err)");
  listen_there();
  TURN_UNTIL(&at, hears(12));
  static const char other[] =
      "\x94\x01\x00\xc0\x92\x07\xa3"
      "x/0";
  say(other, sizeof other - 1);
  finish();
  end();
}

static void test_a_server_that_says_nothing_counts_as_none(void) {
  begin(
      "local waits = c.futures:first() local ok, err = pcall(hasty.second, hasty)"
      " assert(err.code == 'unavailable' and err.message:find 'said nothing', err)"
      " assert(not waits:done()) core.print 'silent' assert(waits:result() == 1)");
  listen_there();
  TURN_UNTIL(&at, hears(12) && dialling()->connecting->early.live == 2);
  connecting *waits = dialling()->connecting;
  CHECK(waits->tries.greet_by > clock_now());
  waits->tries.greet_by = 0;
  timer_start(&at.loop->timers, &waits->timer, 0);
  TURN_UNTIL(&at, strstr(at.output, "silent"));
  hang_up();
  greet(); /* it was busy only */
  take();
  answer(last_id, 1);
  finish();
  end();
}

static void test_a_server_that_closes_instead_of_greeting_is_tried_with_pauses(void) {
  begin("c.futures:first() core.sleep(60)");
  listen_there();
  for (int i = 0; i < 3; i++) {
    TURN_UNTIL(&at, accepts());
    hang_up();
  }
  TURN_UNTIL(&at, dialling()->connecting && dialling()->connecting->tries.failures >= 3);
  CHECK(dialling()->connecting->tries.failures == (uint32_t)foreign.accepted);
  end();
}

/* ---- the connector ---------------------------------------------------------- */

/* FIELD H17: one that fails, or gives no answer, leaves a state that says so, and is asked again.
 */
static void check_connector(const char *body) {
  char text[1024];
  snprintf(text, sizeof text,
           "local asked = 0 core.connector(function(client) asked = asked + 1 %s end)"
           " local d = core.client('run/away/0', 'away/0') local future = d.futures:first()"
           " repeat core.sleep(0.001) until asked >= 3"
           " repeat core.sleep(0.001) until core.connection_state(d) == 'transient_failure'"
           " local brief = core.with(d, {timeout = 0.01}) local ok, err = pcall(brief.first, brief)"
           " assert(err.code == 'deadline_exceeded' and err.message:find 'failed to connect', err)"
           " assert(not future:done())",
           body);
  begin(text);
  finish();
  end();
}

static void test_a_connector_that_comes_to_nothing_is_asked_again(void) {
  check_connector("error 'broken'");
  check_connector("error({})");
  check_connector("return");
}

int main(void) {
  CHECK(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/socket", folder);
  RUN(test_a_call_waits_for_a_server_that_comes_later);
  RUN(test_a_server_killed_and_started_again_is_found);
  RUN(test_a_call_given_up_meanwhile_is_not_sent);
  RUN(test_a_hasty_call_fails_at_once_and_a_patient_one_waits_on);
  RUN(test_who_has_waited_long_says_so_once);
  RUN(test_calls_that_wait_when_their_node_ends_are_let_go);
  RUN(test_an_answer_followed_at_once_by_a_close_counts);
  RUN(test_a_late_answer_does_not_reach_the_next_call);
  RUN(test_what_was_not_sent_goes_to_the_next_link);
  RUN(test_a_server_of_another_kind_is_refused_with_a_text);
  RUN(test_a_server_of_another_version_is_refused_with_a_text);
  RUN(test_a_server_that_says_nothing_counts_as_none);
  RUN(test_a_server_that_closes_instead_of_greeting_is_tried_with_pauses);
  RUN(test_a_connector_that_comes_to_nothing_is_asked_again);
  rmdir(folder);
  return TEST_END();
}
