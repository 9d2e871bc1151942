/* Mailboxes: order, lanes, several producers against a receiver that sleeps, and closing
 * while producers are at it. */
#include "base/mailbox.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "test.h"

enum { PRODUCERS = 4, EACH = 20000 };

typedef struct note {
  message message;
  int producer, number;
} note;

static int last_seen[PRODUCERS], seen, out_of_order; /* the receiver's */
static atomic_int dropped, refused;

static void note_run(message *carried, void *at) {
  (void)at;
  note *one = (note *)carried;
  if (one->number != last_seen[one->producer] + 1) out_of_order++;
  last_seen[one->producer] = one->number;
  seen++;
  free(one);
}

static void note_drop(message *carried) {
  atomic_fetch_add(&dropped, 1);
  free(carried);
}

static bool send(mailbox *box, mailbox_lane lane, int producer, int number) {
  note *one = malloc(sizeof *one);
  *one = (note){{.run = note_run, .drop = note_drop}, producer, number};
  if (mailbox_push(box, lane, &one->message)) return true;
  free(one);
  return false;
}

static void begin(void) {
  memset(last_seen, 0, sizeof last_seen);
  seen = out_of_order = 0;
  dropped = refused = 0;
}

static bool readable(mailbox *box, int timeout_ms) {
  struct pollfd look = {.fd = mailbox_fd(box), .events = POLLIN};
  return poll(&look, 1, timeout_ms) == 1;
}

static void test_messages_come_in_the_order_sent_and_lanes_are_separate(void) {
  mailbox *box = mailbox_new();
  begin();
  CHECK(mailbox_empty(box));
  for (int i = 1; i <= 3; i++) CHECK(send(box, MAILBOX_MAIL, 0, i));
  CHECK(send(box, MAILBOX_CONTROL, 1, 1));
  CHECK(!mailbox_empty(box));
  CHECK(mailbox_run(box, MAILBOX_CONTROL, NULL));
  CHECK(seen == 1 && last_seen[1] == 1);
  CHECK(!mailbox_run(box, MAILBOX_CONTROL, NULL));
  CHECK(mailbox_run(box, MAILBOX_MAIL, NULL));
  CHECK(seen == 4 && out_of_order == 0);
  CHECK(mailbox_empty(box));
  mailbox_unref(box);
}

static void test_a_closed_mailbox_drops_what_it_holds_and_refuses_more(void) {
  mailbox *box = mailbox_new();
  begin();
  CHECK(send(box, MAILBOX_MAIL, 0, 1) && send(box, MAILBOX_CONTROL, 0, 2));
  CHECK(!mailbox_closed(box));
  mailbox_close(box);
  CHECK(mailbox_closed(box) && mailbox_empty(box));
  CHECK(dropped == 2);
  CHECK(!send(box, MAILBOX_MAIL, 0, 3) && !send(box, MAILBOX_CONTROL, 0, 3));
  CHECK(!mailbox_run(box, MAILBOX_MAIL, NULL));
  mailbox_close(box);
  CHECK(seen == 0 && dropped == 2);
  mailbox_unref(box);
}

static void test_the_last_reference_drops_what_is_left(void) {
  mailbox *box = mailbox_ref(mailbox_new());
  begin();
  CHECK(send(box, MAILBOX_MAIL, 0, 1));
  mailbox_unref(box);
  CHECK(dropped == 0);
  mailbox_unref(box);
  CHECK(dropped == 1);
  mailbox_unref(NULL);
}

static void test_only_a_sleeping_receiver_is_signalled(void) {
  mailbox *box = mailbox_new();
  begin();
  CHECK(send(box, MAILBOX_MAIL, 0, 1) && !readable(box, 0));
  CHECK(!mailbox_sleep(box)); /* there is something */
  mailbox_run(box, MAILBOX_MAIL, NULL);
  CHECK(mailbox_sleep(box) && !readable(box, 0));
  CHECK(send(box, MAILBOX_MAIL, 0, 2) && readable(box, 0));
  mailbox_awake(box);
  mailbox_drain(box);
  CHECK(!readable(box, 0));
  CHECK(mailbox_sleep(box) == false);
  mailbox_run(box, MAILBOX_MAIL, NULL);
  CHECK(mailbox_sleep(box));
  mailbox_wake(box);
  CHECK(readable(box, 0));
  mailbox_unref(box);
}

static void test_what_is_put_wakes_nobody_until_it_is_asked_for(void) {
  mailbox *box = mailbox_new();
  note *one = malloc(sizeof *one), *two = malloc(sizeof *two);
  *one = (note){{.run = note_run, .drop = note_drop}, 0, 1};
  *two = (note){{.run = note_run, .drop = note_drop}, 0, 2};
  begin();
  CHECK(!mailbox_sleeps(box) && mailbox_sleep(box) && mailbox_sleeps(box));
  CHECK(mailbox_put(box, MAILBOX_MAIL, &one->message) && !readable(box, 0));
  CHECK(mailbox_put(box, MAILBOX_MAIL, &two->message) && !readable(box, 0));
  mailbox_wake(box);
  CHECK(readable(box, 0) && !mailbox_sleeps(box));
  CHECK(mailbox_run(box, MAILBOX_MAIL, NULL) && seen == 2 && out_of_order == 0);
  mailbox_close(box);
  one = malloc(sizeof *one);
  *one = (note){{.run = note_run, .drop = note_drop}, 0, 3};
  CHECK(!mailbox_put(box, MAILBOX_MAIL, &one->message));
  free(one);
  mailbox_unref(box);
}

static void test_mail_can_be_taken_one_by_one(void) {
  mailbox *box = mailbox_new();
  begin();
  CHECK(!mailbox_run_next(box, NULL));
  for (int i = 1; i <= 3; i++) CHECK(send(box, MAILBOX_MAIL, 0, i));
  CHECK(mailbox_run_next(box, NULL) && seen == 1 && !mailbox_empty(box));
  CHECK(send(box, MAILBOX_MAIL, 0, 4)); /* it comes behind those */
  CHECK(!mailbox_sleep(box));
  CHECK(mailbox_run_next(box, NULL) && mailbox_run_next(box, NULL) && seen == 3);
  CHECK(mailbox_run_next(box, NULL) && seen == 4 && out_of_order == 0 && mailbox_empty(box));
  for (int i = 5; i <= 7; i++) CHECK(send(box, MAILBOX_MAIL, 0, i));
  CHECK(mailbox_run_next(box, NULL) && mailbox_run(box, MAILBOX_MAIL, NULL));
  CHECK(seen == 7 && out_of_order == 0);
  for (int i = 8; i <= 9; i++) CHECK(send(box, MAILBOX_MAIL, 0, i));
  CHECK(mailbox_run_next(box, NULL) && seen == 8);
  mailbox_unref(box); /* what was taken and not run is dropped */
  CHECK(dropped == 1);
}

typedef struct producer {
  pthread_t thread;
  mailbox *box;
  int number;
} producer;

static void *produce(void *argument) {
  producer *self = argument;
  for (int i = 1; i <= EACH; i++)
    if (!send(self->box, MAILBOX_MAIL, self->number, i)) atomic_fetch_add(&refused, 1);
  return NULL;
}

static void start(producer *all, mailbox *box) {
  for (int i = 0; i < PRODUCERS; i++) {
    all[i] = (producer){.box = box, .number = i};
    pthread_create(&all[i].thread, NULL, produce, &all[i]);
  }
}

static void join(producer *all) {
  for (int i = 0; i < PRODUCERS; i++) pthread_join(all[i].thread, NULL);
}

static void test_nothing_of_several_producers_is_lost_on_a_receiver_that_sleeps(void) {
  mailbox *box = mailbox_new();
  producer all[PRODUCERS];
  begin();
  start(all, box);
  while (seen < PRODUCERS * EACH) {
    mailbox_run(box, MAILBOX_MAIL, NULL);
    if (seen == PRODUCERS * EACH || !mailbox_sleep(box)) continue;
    bool woken = readable(box, 20000);
    CHECK(woken);
    mailbox_awake(box);
    if (!woken) break;
    mailbox_drain(box);
  }
  join(all);
  CHECK(seen == PRODUCERS * EACH && out_of_order == 0);
  mailbox_unref(box);
}

static void test_each_message_is_run_or_dropped_or_refused_once_when_closing_races(void) {
  for (int round = 0; round < 20; round++) {
    mailbox *box = mailbox_new();
    producer all[PRODUCERS];
    begin();
    start(all, box);
    while (seen < round * 100) mailbox_run(box, MAILBOX_MAIL, NULL);
    mailbox_close(box);
    join(all);
    CHECK(seen + dropped + refused == PRODUCERS * EACH);
    CHECK(out_of_order == 0);
    mailbox_unref(box);
  }
}

int main(void) {
  RUN(test_messages_come_in_the_order_sent_and_lanes_are_separate);
  RUN(test_a_closed_mailbox_drops_what_it_holds_and_refuses_more);
  RUN(test_the_last_reference_drops_what_is_left);
  RUN(test_only_a_sleeping_receiver_is_signalled);
  RUN(test_what_is_put_wakes_nobody_until_it_is_asked_for);
  RUN(test_mail_can_be_taken_one_by_one);
  RUN(test_nothing_of_several_producers_is_lost_on_a_receiver_that_sleeps);
  RUN(test_each_message_is_run_or_dropped_or_refused_once_when_closing_races);
  return TEST_END();
}
