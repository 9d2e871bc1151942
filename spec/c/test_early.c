/* Calls that wait for a link: what is given up is not sent, times are brought up to date, and
 * what a broken link had begun to send is not sent again. */
#include "rpc/early.h"

#include <stdlib.h>

#include "rpc/hello.h"
#include "test.h"
#include "wire/frame.h"

static early at;
static buffer out;

static void end(void) {
  early_fini(&at);
  buffer_fini(&out);
}

/* A request (or, id 0, a notification) with `size` bytes of parameters, perhaps with a time. */
static size_t write_frame(buffer *to, uint32_t id, size_t size, bool timed) {
  char text[4096] = {0};
  size_t start;
  CHECK(id ? frame_begin_request(to, true, id, "work", 4, timed, &start)
           : frame_begin_notify(to, true, "note", 4, false, &start));
  CHECK(frame_put_array(to, 1) && frame_put_string(to, text, size));
  if (timed) CHECK(hello_put_meta(to, 5000000));
  frame_end(to, true, start);
  return start;
}

static void add(uint32_t id, size_t size, bool timed) {
  size_t start = write_frame(&at.bytes, id, size, timed);
  CHECK(early_add(&at, start, id, !id, true));
}

static int64_t left_ns;
static int64_t left(void *owner, uint32_t id) {
  (void)owner;
  (void)id;
  return left_ns;
}

/* What went out, as a text of ids: "1 2 n". */
static char sent_text[4096];
static int64_t last_time;
static bool note(void *owner, const uint8_t *data, size_t length) {
  (void)owner;
  frame parsed;
  fault why;
  CHECK(frame_parse(data, length, &parsed, &why) == LP_OK);
  char one[16] = "n";
  if (parsed.kind == FRAME_REQUEST) snprintf(one, sizeof one, "%u", parsed.id);
  if (*sent_text) strcat(sent_text, " ");
  strcat(sent_text, one);
  last_time = hello_time(&parsed);
  return true;
}

static const char *sent(void) {
  frame_splitter splitter;
  fault why;
  *sent_text = 0;
  frame_splitter_init(&splitter, true, 1 << 20);
  CHECK(frame_split(&splitter, out.data, out.length, note, NULL, NULL, &why) == LP_OK);
  CHECK(splitter.partial.length == 0);
  frame_splitter_fini(&splitter);
  return sent_text;
}

static void test_goes_out_in_order_without_what_was_given_up(void) {
  for (uint32_t id = 1; id <= 5; id++) add(id, 10, false);
  add(0, 3, false);
  add(6, 100, false);
  CHECK(early_has(&at, 3) && early_drop(&at, 3) > 0);
  CHECK(!early_has(&at, 3) && early_drop(&at, 3) == 0 && early_drop(&at, 99) == 0);
  early_tidy(&at);
  CHECK(at.live == 6 && early_send(&at, &out, left, NULL));
  CHECK(strcmp(sent(), "1 2 4 5 n 6") == 0);
  CHECK(at.live == 0 && at.count == 0 && at.bytes.length == 0);
  end();
}

static void test_what_is_given_up_takes_no_room(void) {
  size_t most = 0;
  add(1, 10, false);
  for (uint32_t id = 2; id < 10000; id++) {
    add(id, 1000, false);
    CHECK(early_drop(&at, id) > 1000);
    early_tidy(&at);
    if (at.bytes.length > most) most = at.bytes.length;
  }
  CHECK(most < 100 * 1100 && at.size <= 256);
  CHECK(early_send(&at, &out, left, NULL) && strcmp(sent(), "1") == 0);
  end();
}

static void test_times_count_from_when_they_are_sent(void) {
  add(1, 10, true);
  left_ns = 2000000;
  CHECK(early_send(&at, &out, left, NULL));
  CHECK(strcmp(sent(), "1") == 0 && last_time == 2000000);
  out.length = 0;
  add(2, 10, true);
  left_ns = -5;
  CHECK(early_send(&at, &out, left, NULL));
  CHECK(strcmp(sent(), "2") == 0 && last_time == 0);
  end();
}

static bool keep(void *owner, uint32_t id, bool notify, const char *method, size_t length,
                 bool *waits) {
  (void)owner;
  (void)method;
  (void)length;
  *waits = true;
  return notify || id % 2 == 1;
}

/* For every number of bytes that may have gone out: exactly the frames that begin behind them. */
static void test_takes_over_what_had_not_begun_to_be_sent(void) {
  static const char *const kept[] = {"1", NULL, "3", NULL, "5", "n"};
  buffer link = {0};
  size_t starts[6];
  for (uint32_t i = 0; i < 5; i++) starts[i] = write_frame(&link, i + 1, 7 * i, i == 2);
  starts[5] = write_frame(&link, 0, 1, false);
  for (size_t gone = 0; gone <= link.length; gone++) {
    char expected[64] = "";
    for (int i = 0; i < 6; i++) {
      if (starts[i] < gone || !kept[i]) continue;
      if (*expected) strcat(expected, " ");
      strcat(expected, kept[i]);
    }
    CHECK(early_take(&at, link.data, link.length, gone, keep, NULL));
    CHECK(early_send(&at, &out, left, NULL));
    CHECK(strcmp(sent(), expected) == 0);
    out.length = 0;
  }
  buffer_fini(&link);
  end();
}

static void test_finds_where_frames_begin(void) {
  buffer link = {0};
  size_t second = (write_frame(&link, 1, 5, false), write_frame(&link, 2, 5, false));
  CHECK(early_boundary(link.data, 0) == 0 && early_boundary(link.data, second - 1) == 0);
  CHECK(early_boundary(link.data, second) == second);
  CHECK(early_boundary(link.data, link.length - 1) == second);
  CHECK(early_boundary(link.data, link.length) == link.length);
  CHECK(early_boundary((const uint8_t *)"GET / HTTP/1.1", 14) == 0);
  buffer_fini(&link);
}

/* A frame cut off, or bytes that are none, end the taking and are never read past. */
static void test_takes_nothing_from_what_is_no_frame(void) {
  buffer link = {0};
  write_frame(&link, 1, 5, false);
  write_frame(&link, 3, 5, false);
  for (size_t length = 0; length < link.length; length++) {
    uint8_t *copy = malloc(length ? length : 1); /* for a sanitizer to watch its end */
    memcpy(copy, link.data, length);
    CHECK(early_take(&at, copy, length, 0, keep, NULL) && at.live <= 1);
    at.live = at.count = at.bytes.length = 0;
    free(copy);
  }
  buffer_fini(&link);
  end();
}

int main(void) {
  RUN(test_goes_out_in_order_without_what_was_given_up);
  RUN(test_what_is_given_up_takes_no_room);
  RUN(test_times_count_from_when_they_are_sent);
  RUN(test_takes_over_what_had_not_begun_to_be_sent);
  RUN(test_finds_where_frames_begin);
  RUN(test_takes_nothing_from_what_is_no_frame);
  return TEST_END();
}
