/* Floor of a call between two threads that both sleep: a number goes through memory to
 * a thread that waits in epoll for an eventfd, and comes back the same way.
 *
 *   thread_wakeup [--rounds N] [--pin A,B] */
#define _GNU_SOURCE
#include "floor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef struct mailbox {
  _Atomic long value;
  int event, epoll;
} mailbox;

typedef struct pair {
  const floor_args *args;
  mailbox request, answer;
} pair;

enum { LAST = -1 }; /* the value that ends the server */

static void mailbox_open(mailbox *box) {
  struct epoll_event event = {.events = EPOLLIN};
  box->event = eventfd(0, EFD_NONBLOCK);
  box->epoll = epoll_create1(0);
  if (box->event < 0 || epoll_ctl(box->epoll, EPOLL_CTL_ADD, box->event, &event))
    floor_die("eventfd");
}

static void mailbox_close(mailbox *box) {
  close(box->event);
  close(box->epoll);
}

static void mailbox_put(mailbox *box, long value) {
  uint64_t one = 1;
  atomic_store_explicit(&box->value, value, memory_order_release);
  if (write(box->event, &one, sizeof one) != sizeof one) floor_die("write");
}

static long mailbox_take(mailbox *box) {
  struct epoll_event event;
  uint64_t count;
  while (epoll_wait(box->epoll, &event, 1, -1) < 1) continue;
  if (read(box->event, &count, sizeof count) != sizeof count) floor_die("read");
  return atomic_load_explicit(&box->value, memory_order_acquire);
}

static void *serve(void *argument) {
  pair *both = argument;
  long value;
  floor_pin(both->args, 1);
  while ((value = mailbox_take(&both->request)) != LAST) mailbox_put(&both->answer, value);
  return NULL;
}

static void call(pair *both, long rounds) {
  for (long i = 0; i < rounds; i++) {
    mailbox_put(&both->request, i);
    if (mailbox_take(&both->answer) != i) floor_die("a wrong answer");
  }
}

int main(int argc, char **argv) {
  floor_args args;
  floor_init(&args, argc, argv, "thread_wakeup", 200000, NULL);
  pair both = {.args = &args};
  pthread_t thread;
  mailbox_open(&both.request);
  mailbox_open(&both.answer);
  if (pthread_create(&thread, NULL, serve, &both)) floor_die("pthread_create");
  floor_pin(&args, 0);
  call(&both, args.rounds / 10 + 1); /* warms up */
  int64_t start = floor_now();
  call(&both, args.rounds);
  floor_begin(&args, floor_now() - start, args.rounds);
  floor_end();
  mailbox_put(&both.request, LAST);
  pthread_join(thread, NULL);
  mailbox_close(&both.request);
  mailbox_close(&both.answer);
  return 0;
}
