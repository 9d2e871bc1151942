/* Back-off, notices and greetings, with a clock and random bits of our own. */
#include "base/clock.h"
#include "rpc/reconnect.h"
#include "test.h"

static const int64_t second = 1000000000;
static reconnect at;

static void begin(int64_t now) {
  reconnect_begin(&at, now);
}

static void test_waits_half_to_all_of_the_back_off(void) {
  begin(0);
  reconnect_failed(&at, 100, 0);
  CHECK(at.retry_at == 100 + RECONNECT_FIRST_NS / 2);
  begin(0);
  reconnect_failed(&at, 100, UINT32_MAX);
  CHECK(at.retry_at == 100 + RECONNECT_FIRST_NS);
  begin(0);
  reconnect_failed(&at, 100, UINT32_MAX / 2);
  CHECK(at.retry_at > 100 + RECONNECT_FIRST_NS / 2 && at.retry_at < 100 + RECONNECT_FIRST_NS);
}

static void test_doubles_up_to_the_longest(void) {
  int64_t before = 0;
  begin(0);
  for (int i = 0; i < 100; i++) {
    reconnect_failed(&at, 0, UINT32_MAX);
    CHECK(at.retry_at <= RECONNECT_LAST_NS);
    CHECK(at.retry_at == 2 * before || at.retry_at == RECONNECT_LAST_NS || before == 0);
    before = at.retry_at;
  }
  CHECK(before == RECONNECT_LAST_NS);
  at.failures = UINT32_MAX;
  reconnect_failed(&at, 0, UINT32_MAX);
  CHECK(at.retry_at == RECONNECT_LAST_NS && at.failures == UINT32_MAX);
}

static void test_retries_when_it_is_due_and_once(void) {
  begin(0);
  reconnect_failed(&at, 0, 0);
  int64_t due = reconnect_due(&at);
  CHECK(due == at.retry_at);
  CHECK(reconnect_next(&at, due - 1) == RECONNECT_NOTHING);
  CHECK(reconnect_next(&at, due) == RECONNECT_RETRY);
  CHECK(reconnect_next(&at, due) == RECONNECT_NOTHING);
}

static void test_begins_anew_with_the_shortest_back_off(void) {
  begin(0);
  for (int i = 0; i < 10; i++) reconnect_failed(&at, 0, UINT32_MAX);
  begin(5);
  reconnect_failed(&at, 5, UINT32_MAX);
  CHECK(at.retry_at == 5 + RECONNECT_FIRST_NS);
}

static void test_says_once_that_it_waits(void) {
  begin(7);
  CHECK(reconnect_next(&at, 7 + RECONNECT_NOTICE_NS - 1) == RECONNECT_NOTHING);
  int notices = 0;
  for (int64_t now = 0; now < 60 * second; now += second / 10) {
    reconnect_act act = reconnect_next(&at, now);
    if (act == RECONNECT_NOTICE) notices++;
    if (act == RECONNECT_NOTHING && at.retry_at == CLOCK_NEVER) reconnect_failed(&at, now, 0);
  }
  CHECK(notices == 1);
}

static void test_gives_a_server_time_to_greet(void) {
  begin(0);
  reconnect_tried(&at, second, true);
  CHECK(reconnect_next(&at, second + RECONNECT_GREET_NS - 1) == RECONNECT_NOTICE);
  CHECK(reconnect_next(&at, second + RECONNECT_GREET_NS) == RECONNECT_SILENT);
  CHECK(reconnect_next(&at, 100 * second) == RECONNECT_NOTHING);
  reconnect_tried(&at, second, false);
  CHECK(reconnect_due(&at) == CLOCK_NEVER);
}

static void test_does_not_retry_while_somebody_else_looks_after_it(void) {
  begin(0);
  reconnect_failed(&at, 0, 0);
  reconnect_hold(&at);
  CHECK(reconnect_due(&at) == RECONNECT_NOTICE_NS);
  CHECK(reconnect_next(&at, RECONNECT_NOTICE_NS) == RECONNECT_NOTICE);
  CHECK(reconnect_due(&at) == CLOCK_NEVER);
}

int main(void) {
  RUN(test_waits_half_to_all_of_the_back_off);
  RUN(test_doubles_up_to_the_longest);
  RUN(test_retries_when_it_is_due_and_once);
  RUN(test_begins_anew_with_the_shortest_back_off);
  RUN(test_says_once_that_it_waits);
  RUN(test_gives_a_server_time_to_greet);
  RUN(test_does_not_retry_while_somebody_else_looks_after_it);
  return TEST_END();
}
