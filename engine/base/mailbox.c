/* See mailbox.h. Each lane is a stack that producers push with compare-and-swap and the
 * receiver takes whole and reverses; a closed lane holds the CLOSED mark for ever. The
 * eventfd is written only for a receiver that announced its sleep: the announcement and
 * the push are sequentially consistent, so one of the two sees the other. */
#include "base/mailbox.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/memory.h"

struct mailbox {
  _Atomic(message *) lanes[2];
  message *taken; /* the receiver's: mail in order, to be run one by one */
  atomic_int sleeping;
  atomic_int references;
  int fd;
};

static message closed_mark;

mailbox *mailbox_new(void) {
  mailbox *box = mem_new(sizeof *box);
  if (!box) return NULL;
  box->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (box->fd < 0) {
    mem_free(box);
    return NULL;
  }
  atomic_init(&box->references, 1);
  return box;
}

mailbox *mailbox_ref(mailbox *box) {
  atomic_fetch_add_explicit(&box->references, 1, memory_order_relaxed);
  return box;
}

void mailbox_unref(mailbox *box) {
  if (!box || atomic_fetch_sub(&box->references, 1) != 1) return;
  mailbox_close(box);
  close(box->fd);
  mem_free(box);
}

void mailbox_wake(mailbox *box) {
  if (!atomic_load(&box->sleeping) || !atomic_exchange(&box->sleeping, 0)) return;
  uint64_t one = 1;
  ssize_t written = write(box->fd, &one, sizeof one);
  (void)written; /* fails only when the counter is full: then the receiver is awake */
}

bool mailbox_push(mailbox *box, mailbox_lane lane, message *sent) {
  if (!mailbox_put(box, lane, sent)) return false;
  mailbox_wake(box);
  return true;
}

bool mailbox_put(mailbox *box, mailbox_lane lane, message *sent) {
  message *top = atomic_load(&box->lanes[lane]);
  do {
    if (top == &closed_mark) return false;
    sent->next = top;
  } while (!atomic_compare_exchange_weak(&box->lanes[lane], &top, sent));
  return true;
}

bool mailbox_sleeps(const mailbox *box) {
  return atomic_load(&box->sleeping);
}

bool mailbox_closed(const mailbox *box) {
  return atomic_load(&box->lanes[MAILBOX_MAIL]) == &closed_mark;
}

/* Takes the lane's messages, oldest first, and leaves `left` in their place. */
static message *lane_take(mailbox *box, mailbox_lane lane, message *left) {
  message *top = atomic_exchange(&box->lanes[lane], left);
  message *oldest = NULL;
  while (top && top != &closed_mark) {
    message *next = top->next;
    top->next = oldest;
    oldest = top;
    top = next;
  }
  return oldest;
}

static bool lane_empty(const mailbox *box, mailbox_lane lane) {
  message *seen = atomic_load_explicit(&box->lanes[lane], memory_order_relaxed);
  return !seen || seen == &closed_mark;
}

bool mailbox_run_next(mailbox *box, void *loop) {
  if (!box->taken && !lane_empty(box, MAILBOX_MAIL))
    box->taken = lane_take(box, MAILBOX_MAIL, NULL);
  message *next = box->taken;
  if (!next) return false;
  box->taken = next->next;
  next->run(next, loop);
  return true;
}

bool mailbox_run(mailbox *box, mailbox_lane lane, void *loop) {
  bool any = false;
  while (lane == MAILBOX_MAIL && box->taken) any = mailbox_run_next(box, loop);
  if (lane_empty(box, lane)) return any;
  for (message *each = lane_take(box, lane, NULL), *next; each; each = next) {
    next = each->next;
    each->run(each, loop);
  }
  return true;
}

bool mailbox_empty(const mailbox *box) {
  message *control = atomic_load(&box->lanes[MAILBOX_CONTROL]);
  message *mail = atomic_load(&box->lanes[MAILBOX_MAIL]);
  return !box->taken && (!control || control == &closed_mark) && (!mail || mail == &closed_mark);
}

bool mailbox_has(const mailbox *box, mailbox_lane lane) {
  message *top = atomic_load(&box->lanes[lane]);
  return top && top != &closed_mark;
}

bool mailbox_sleep(mailbox *box) {
  atomic_store(&box->sleeping, 1);
  if (mailbox_empty(box)) return true;
  mailbox_awake(box);
  return false;
}

void mailbox_awake(mailbox *box) {
  atomic_store(&box->sleeping, 0);
}

/* Not in mailbox_awake, which cannot know: a writer that has taken the mark may be about to
 * write, and nobody would take that back. */
void mailbox_drain(mailbox *box) {
  uint64_t count;
  ssize_t got = read(box->fd, &count, sizeof count);
  (void)got;
}

int mailbox_fd(const mailbox *box) {
  return box->fd;
}

void mailbox_close(mailbox *box) {
  for (message *next; (next = box->taken);) {
    box->taken = next->next;
    next->drop(next);
  }
  for (int lane = MAILBOX_CONTROL; lane <= MAILBOX_MAIL; lane++) {
    for (message *each = lane_take(box, (mailbox_lane)lane, &closed_mark), *next; each;
         each = next) {
      next = each->next;
      each->drop(each);
    }
  }
}
