/* Links in memory: what is appended at one end comes out at the other, in order; either end
 * may be freed at any time, also from its own callback; a mailbox that closed takes nothing. */
#include "net/pipe.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "test.h"

typedef struct side {
  mailbox *box;
  pipe_end *end;
  buffer got;
  int data_events, closes;
  bool free_on_data, free_on_close;
} side;

static side ends[2];

static void let_go(side *one) {
  pipe_free(one->end);
  one->end = NULL;
}

static void on_data(void *owner, const uint8_t *data, size_t length) {
  side *one = owner;
  one->data_events++;
  CHECK(length > 0 && buffer_append(&one->got, data, length));
  if (one->free_on_data) let_go(one);
}

static void on_close(void *owner, lp_status status, const char *why) {
  side *one = owner;
  CHECK(status == LP_UNAVAILABLE && *why);
  one->closes++;
  if (one->free_on_close) let_go(one);
}

static const stream_events events = {.on_data = on_data, .on_close = on_close};

static void set_up(void) {
  memset(ends, 0, sizeof ends);
  for (int i = 0; i < 2; i++) ends[i].box = mailbox_new();
  CHECK(pipe_new(ends[0].box, ends[1].box, &ends[0].end, &ends[1].end));
  for (int i = 0; i < 2; i++) pipe_attach(ends[i].end, &events, &ends[i]);
}

static void run(side *one) {
  while (mailbox_run(one->box, MAILBOX_MAIL, NULL)) continue;
}

static void tear_down(void) {
  for (int i = 0; i < 2; i++) let_go(&ends[i]);
  for (int i = 0; i < 2; i++) {
    mailbox_close(ends[i].box);
    mailbox_unref(ends[i].box);
    buffer_fini(&ends[i].got);
  }
}

static void put(side *from, const char *text) {
  CHECK(buffer_append(pipe_out(from->end), text, strlen(text)));
}

static bool got(const side *one, const char *text) {
  return one->got.length == strlen(text) && memcmp(one->got.data, text, one->got.length) == 0;
}

static void test_bytes_travel_when_flushed_both_ways(void) {
  set_up();
  put(&ends[0], "one");
  CHECK(pipe_queued(ends[0].end) == 3);
  run(&ends[1]);
  CHECK(ends[1].data_events == 0);
  CHECK(pipe_flush(ends[0].end) && pipe_queued(ends[0].end) == 3);
  put(&ends[0], " two");
  CHECK(pipe_flush(ends[0].end) && pipe_flush(ends[0].end)); /* nothing left: fine */
  CHECK(pipe_queued(ends[0].end) == 7);
  run(&ends[1]);
  CHECK(pipe_queued(ends[0].end) == 0); /* taken up */
  CHECK(got(&ends[1], "one two") && ends[1].data_events == 2);
  put(&ends[1], "answer");
  CHECK(pipe_flush(ends[1].end));
  run(&ends[0]);
  CHECK(got(&ends[0], "answer"));
  tear_down();
}

static void test_what_is_handed_over_wakes_nobody_until_the_flush(void) {
  set_up();
  CHECK(pipe_crosses(ends[0].end) && pipe_is_flushed(ends[0].end));
  put(&ends[0], "one");
  CHECK(!pipe_is_flushed(ends[0].end));
  CHECK(pipe_hand_over(ends[0].end) && pipe_is_flushed(ends[0].end)); /* it is awake */
  run(&ends[1]);
  CHECK(got(&ends[1], "one") && mailbox_sleep(ends[1].box));
  put(&ends[0], " two");
  CHECK(pipe_hand_over(ends[0].end) && !pipe_is_flushed(ends[0].end));
  put(&ends[0], " three");
  CHECK(pipe_hand_over(ends[0].end) && mailbox_sleeps(ends[1].box));
  CHECK(pipe_flush(ends[0].end) && pipe_is_flushed(ends[0].end));
  CHECK(!mailbox_sleeps(ends[1].box));
  run(&ends[1]);
  CHECK(got(&ends[1], "one two three") && ends[1].data_events == 3);
  let_go(&ends[1]);
  put(&ends[0], "nobody");
  CHECK(!pipe_hand_over(ends[0].end) && !pipe_flush(ends[0].end));
  tear_down();
}

static void test_several_buffers_are_kept_and_not_without_end(void) {
  set_up();
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 40; i++) {
      put(&ends[0], "x");
      CHECK(pipe_flush(ends[0].end));
    }
    run(&ends[1]);
    for (int i = 0; i < 40; i++) {
      put(&ends[1], "y");
      CHECK(pipe_flush(ends[1].end));
    }
    run(&ends[0]);
  }
  CHECK(ends[1].got.length == 120 && ends[0].got.length == 120);
  tear_down();
}

static void test_a_buffer_that_came_is_used_for_the_answer(void) {
  set_up();
  put(&ends[0], "question");
  const uint8_t *bytes = pipe_out(ends[0].end)->data;
  pipe_flush(ends[0].end);
  run(&ends[1]);
  buffer *out = pipe_out(ends[1].end);
  CHECK(out->data == bytes && out->length == 0);
  tear_down();
}

static void test_a_large_buffer_is_given_back(void) {
  set_up();
  CHECK(buffer_reserve(pipe_out(ends[0].end), 2 << 20));
  put(&ends[0], "x");
  pipe_flush(ends[0].end);
  run(&ends[1]);
  CHECK(pipe_out(ends[1].end)->capacity < 2 << 20);
  tear_down();
}

static void test_freeing_an_end_sends_what_it_had_and_tells_the_other_once(void) {
  set_up();
  put(&ends[0], "last words");
  let_go(&ends[0]);
  run(&ends[1]);
  CHECK(got(&ends[1], "last words") && ends[1].closes == 1);
  put(&ends[1], "too late");
  CHECK(!pipe_flush(ends[1].end));
  run(&ends[1]);
  CHECK(ends[1].closes == 1);
  tear_down();
}

static void test_what_is_under_way_to_a_freed_end_is_dropped(void) {
  set_up();
  put(&ends[0], "nobody reads this");
  CHECK(pipe_flush(ends[0].end));
  let_go(&ends[1]);
  run(&ends[1]);
  run(&ends[0]);
  CHECK(ends[1].data_events == 0 && ends[0].closes == 1);
  tear_down();
}

static void test_an_end_may_be_freed_by_its_own_callback(void) {
  set_up();
  ends[1].free_on_data = true;
  put(&ends[0], "a");
  pipe_flush(ends[0].end);
  put(&ends[0], "b");
  pipe_flush(ends[0].end);
  run(&ends[1]);
  CHECK(got(&ends[1], "a") && !ends[1].end);
  ends[0].free_on_close = true;
  run(&ends[0]);
  CHECK(ends[0].closes == 1 && !ends[0].end);
  tear_down();
}

static void test_a_closed_mailbox_takes_nothing_and_closing_it_loses_nothing_in_memory(void) {
  set_up();
  put(&ends[0], "queued when it closes");
  pipe_flush(ends[0].end);
  mailbox_close(ends[1].box);
  put(&ends[0], "refused");
  CHECK(!pipe_flush(ends[0].end));
  let_go(&ends[1]);
  run(&ends[0]);
  CHECK(ends[0].closes == 1 && ends[1].data_events == 0);
  tear_down();
}

static void test_both_ends_freed_before_either_mailbox_is_looked_at(void) {
  set_up();
  put(&ends[0], "x");
  put(&ends[1], "y");
  let_go(&ends[0]);
  let_go(&ends[1]);
  run(&ends[0]);
  run(&ends[1]);
  CHECK(ends[0].closes == 0 && ends[1].closes == 0 && ends[1].data_events == 0);
  tear_down();
}

/* The other thread echoes what comes and frees its end after `rounds`. */
typedef struct echo {
  side *side;
  int rounds;
  atomic_bool quit;
} echo;

static void echo_data(void *owner, const uint8_t *data, size_t length) {
  echo *self = owner;
  side *one = self->side;
  one->data_events++;
  buffer_append(pipe_out(one->end), data, length);
  pipe_flush(one->end);
  if (one->data_events >= self->rounds) let_go(one);
}

static void echo_close(void *owner, lp_status status, const char *why) {
  (void)status, (void)why;
  let_go(((echo *)owner)->side);
}

static const stream_events echo_events = {.on_data = echo_data, .on_close = echo_close};

static void *echo_main(void *argument) {
  echo *self = argument;
  while (!atomic_load(&self->quit)) mailbox_run(self->side->box, MAILBOX_MAIL, NULL);
  run(self->side);
  return NULL;
}

static void test_ends_on_two_threads_agree_on_every_byte_until_one_leaves(void) {
  for (int rounds = 1; rounds < 2000; rounds *= 3) {
    set_up();
    echo other = {.side = &ends[1], .rounds = rounds};
    pthread_t thread;
    pipe_attach(ends[1].end, &echo_events, &other);
    pthread_create(&thread, NULL, echo_main, &other);
    size_t sent = 0;
    while (!ends[0].closes) {
      put(&ends[0], "0123456789");
      if (pipe_flush(ends[0].end)) sent += 10;
      mailbox_run(ends[0].box, MAILBOX_MAIL, NULL);
    }
    atomic_store(&other.quit, true);
    pthread_join(thread, NULL);
    CHECK(ends[1].data_events == rounds);
    CHECK(ends[0].got.length <= sent && ends[0].got.length >= (size_t)rounds * 10);
    tear_down();
  }
}

int main(void) {
  RUN(test_bytes_travel_when_flushed_both_ways);
  RUN(test_a_buffer_that_came_is_used_for_the_answer);
  RUN(test_what_is_handed_over_wakes_nobody_until_the_flush);
  RUN(test_several_buffers_are_kept_and_not_without_end);
  RUN(test_a_large_buffer_is_given_back);
  RUN(test_freeing_an_end_sends_what_it_had_and_tells_the_other_once);
  RUN(test_what_is_under_way_to_a_freed_end_is_dropped);
  RUN(test_an_end_may_be_freed_by_its_own_callback);
  RUN(test_a_closed_mailbox_takes_nothing_and_closing_it_loses_nothing_in_memory);
  RUN(test_both_ends_freed_before_either_mailbox_is_looked_at);
  RUN(test_ends_on_two_threads_agree_on_every_byte_until_one_leaves);
  return TEST_END();
}
