/* A loop's mailbox: many threads push, one takes. Two lanes, control and mail, so that
 * a stop or a query overtakes everything queued. A mailbox is reference-counted and
 * outlives its loop; pushing to a closed one fails, and nothing is lost silently. */
#ifndef LP_BASE_MAILBOX_H
#define LP_BASE_MAILBOX_H

#include <stdbool.h>

typedef struct message message;
struct message {
  message *next;
  /* On the receiving thread; `loop` is whatever mailbox_run was given. Owns the message. */
  void (*run)(message *message, void *loop);
  /* Instead of run when the mailbox closes first; on any thread. Owns the message. */
  void (*drop)(message *message);
};

typedef enum mailbox_lane { MAILBOX_CONTROL, MAILBOX_MAIL } mailbox_lane;

typedef struct mailbox mailbox;

/* With one reference; NULL when memory or descriptors are out. */
mailbox *mailbox_new(void);
mailbox *mailbox_ref(mailbox *box);
void mailbox_unref(mailbox *box); /* accepts NULL */

/* Any thread. False when closed: the message is still the caller's. Wakes the receiver
 * if it sleeps. */
bool mailbox_push(mailbox *box, mailbox_lane lane, message *message);
/* The same, but a receiver that sleeps is left to sleep: mailbox_wake has to follow unless it is
 * awake afterwards, and then it takes the message before it sleeps. */
bool mailbox_put(mailbox *box, mailbox_lane lane, message *message);
bool mailbox_sleeps(const mailbox *box);
bool mailbox_closed(const mailbox *box);
/* Wakes a sleeping receiver without a message. */
void mailbox_wake(mailbox *box);

/* The receiver's side. Runs what is in the lane, oldest first; true if there was any. */
bool mailbox_run(mailbox *box, mailbox_lane lane, void *loop);
/* Runs the oldest message of the mail lane alone; true if there was one. */
bool mailbox_run_next(mailbox *box, void *loop);
bool mailbox_empty(const mailbox *box);
/* Is anything in this lane? From any thread. */
bool mailbox_has(const mailbox *box, mailbox_lane lane);
/* Announces that the receiver is about to sleep on mailbox_fd; false when something came
 * meanwhile (then it must not sleep). */
bool mailbox_sleep(mailbox *box);
/* The receiver is awake again. */
void mailbox_awake(mailbox *box);
/* The descriptor was seen to be readable: makes it unreadable again. */
void mailbox_drain(mailbox *box);
int mailbox_fd(const mailbox *box);
/* Refuses further messages and drops those queued. */
void mailbox_close(mailbox *box);

#endif
