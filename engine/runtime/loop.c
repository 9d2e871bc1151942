/* See loop.h. */
#include "runtime/loop.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "runtime/engine.h"
#include "runtime/interrupt.h"
#include "runtime/node.h"

/* Trust in spinning: gained one by one, lost faster. */
enum { SPIN_TRUST = 8, SPIN_LOSS = 3, SPIN_WAKE = 4, SPIN_LOOKS = 20, SPIN_ALONE_NS = 2000 };
enum { SCRATCH_BYTES = 64 * 1024, NODE_SHARE = 64, LOOK_EVERY = 32, LOOK_NS = 20000 };

static void loop_woken(void *owner, unsigned events) {
  (void)events;
  mailbox_drain(((loop *)owner)->box);
}

loop *loop_new(engine *engine, const char *name, fault *fault) {
  loop *made = mem_new(sizeof *made);
  if (!made) goto failed;
  made->engine = engine;
  snprintf(made->name, sizeof made->name, "%s", name);
  slabs_init(&made->slabs);
  list_init(&made->nodes);
  list_init(&made->ready);
  list_init(&made->dirty);
  made->now = made->looked = clock_now();
  made->look_every = 1;
  timer_wheel_init(&made->timers, made->now);
  made->thread = pthread_self();
  made->scratch.size = SCRATCH_BYTES;
  made->scratch.data = mem_alloc(SCRATCH_BYTES);
  made->box = mailbox_new();
  made->poller = made->scratch.data && made->box ? poller_new() : NULL;
  if (made->poller)
    made->wake =
        poller_watch_new(made->poller, mailbox_fd(made->box), POLLER_READ, loop_woken, made);
  if (made->wake) return made;
failed:
  loop_free(made);
  fault_set(fault, LP_RESOURCE_EXHAUSTED,
            "cannot make a loop: out of memory or of file descriptors (see ulimit -n)");
  return NULL;
}

static void *loop_main(void *argument) {
  loop *loop = argument;
  interrupt_thread(loop);
  while (!loop->quit || !list_empty(&loop->nodes)) loop_turn(loop, CLOCK_NEVER);
  mailbox_close(loop->box);
  atomic_store(&loop->ended, true);
  interrupt_thread(NULL);
  return NULL;
}

lp_status loop_start(loop *loop, fault *fault) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 1 << 20);
  /* The signal mask stays: what a node starts with io.popen inherits it. */
  int failed = pthread_create(&loop->thread, &attributes, loop_main, loop);
  pthread_attr_destroy(&attributes);
  if (failed)
    return fault_set(fault, LP_RESOURCE_EXHAUSTED, "cannot start a thread: %s", strerror(failed));
  loop->threaded = true;
  return LP_OK;
}

static void quit_run(message *carried, void *at) {
  (void)carried;
  ((loop *)at)->quit = true;
}

static void quit_drop(message *carried) {
  (void)carried;
}

void loop_quit(loop *loop) {
  loop->quitting = (message){.run = quit_run, .drop = quit_drop};
  mailbox_push(loop->box, MAILBOX_CONTROL, &loop->quitting);
}

void loop_free(loop *loop) {
  if (!loop) return;
  if (loop->threaded) pthread_join(loop->thread, NULL);
  if (loop->box) mailbox_close(loop->box);
  poller_watch_free(loop->wake);
  poller_free(loop->poller);
  mailbox_unref(loop->box);
  hash_fini(&loop->by_id);
  slabs_fini(&loop->slabs);
  mem_free(loop->scratch.data);
  mem_free(loop);
}

node *loop_find_node(loop *loop, uint64_t id) {
  hash_link *link = hash_find(&loop->by_id, id);
  return link ? list_entry(link, node, by_id) : NULL;
}

void loop_dirty(loop *loop, flushable *item) {
  if (!list_empty(&item->link)) return;
  item->since = loop->looked;
  list_push(&loop->dirty, &item->link);
}

/* Flushes what has been dirty for longer than it can stay so. */
static void flush_overdue(loop *loop) {
  list overdue;
  list_init(&overdue);
  for (list *each = loop->dirty.next, *next; each != &loop->dirty; each = next) {
    next = each->next;
    const flushable *item = list_entry(each, flushable, link);
    if (!item->patience || loop->looked - item->since < item->patience(item)) continue;
    list_remove(each);
    list_push(&overdue, each);
  }
  for (list *link; (link = list_pop(&overdue));) {
    flushable *item = list_entry(link, flushable, link);
    item->flush(item);
  }
}

/* Handlers that take long are not to hold up what others wrote before them. Looking at the clock
 * is dear, so it is done as often as the last resumes took, and at every 32nd of short ones. */
void loop_look(loop *loop) {
  int64_t now = clock_now(), each = (now - loop->looked) / loop->since_look;
  loop->look_every = each * LOOK_EVERY <= LOOK_NS ? LOOK_EVERY
                     : each < LOOK_NS             ? (int)(LOOK_NS / each)
                                                  : 1;
  loop->since_look = 0;
  loop->looked = now;
  if (!list_empty(&loop->dirty)) flush_overdue(loop);
}

/* Gives each ready node a share; returns how many resumes that took. */
static int loop_run_ready(loop *loop) {
  int done = 0;
  list nodes; /* those ready now: who becomes ready meanwhile is next time's */
  list_init(&nodes);
  list_splice(&nodes, &loop->ready);
  for (list *link; (link = list_pop(&nodes));) {
    done += 1 + node_run(list_entry(link, node, ready_link), NODE_SHARE);
    if (!atomic_load_explicit(&loop->interrupt, memory_order_relaxed)) continue;
    list_splice(&nodes, &loop->ready);
    list_splice(&loop->ready, &nodes);
    break;
  }
  return done;
}

static void loop_flush(loop *loop) {
  for (list *link; (link = list_pop(&loop->dirty));) {
    flushable *item = list_entry(link, flushable, link);
    item->flush(item);
  }
}

/* Mail, tasks and what they send, again and again while there is any: calls between nodes
 * of one loop never leave this function. Mail is taken piece by piece, so that
 * what came first is under way to where it is waited for before all has been looked at. After
 * something that took long all of it is taken: the later of it may tell that the earlier is not
 * wanted any more. Ends with the turn's budget. */
static void loop_work(loop *loop) {
  int total = 0;
  int64_t until = loop->now + LOOP_TURN_NS;
  if (loop->work_until && loop->work_until < until) until = loop->work_until;
  do {
    mailbox_run(loop->box, MAILBOX_CONTROL, loop);
    mailbox_run_next(loop->box, loop);
    if (loop->behind) mailbox_run(loop->box, MAILBOX_MAIL, loop);
    loop->behind = false;
    total += 1 + loop_run_ready(loop);
    if (loop->looked >= until) break;
    if (atomic_load_explicit(&loop->interrupt, memory_order_relaxed)) break;
    if (list_empty(&loop->ready) && mailbox_empty(loop->box)) loop_flush(loop);
  } while (total < LOOP_TURN_RESUMES && (!list_empty(&loop->ready) || !mailbox_empty(loop->box)));
  loop_flush(loop);
}

static int64_t loop_timeout(loop *loop, int64_t until) {
  if (!list_empty(&loop->ready) || !list_empty(&loop->dirty) || loop->quit) return 0;
  if (loop->awake) return 0;
  if (loop->until_empty && list_empty(&loop->nodes)) return 0;
  int64_t next = timer_next(&loop->timers);
  if (next > until) next = until;
  if (next == CLOCK_NEVER) return -1;
  int64_t now = clock_now();
  return next > now ? next - now : 0;
}

/* ---- spinning ---------------------------------------------------------------------- */

bool loop_busy(const loop *loop) {
  return !list_empty(&loop->ready) || !list_empty(&loop->dirty) || !mailbox_empty(loop->box) ||
         loop->quit;
}

/* Looks at the mailbox alone: the shortest way from another core. */
static void spin_watch(const mailbox *box) {
  for (int i = 0; i < SPIN_LOOKS && mailbox_empty(box); i++) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
  }
}

/* Whoever is to answer may need this processor. */
static void spin_give_way(loop *loop) {
  sched_yield();
  if (poller_watches(loop->poller) > 1 && mailbox_empty(loop->box)) poller_wait(loop->poller, 0);
}

/* Looks for work for a while instead of sleeping, since being woken costs more than most
 * calls take. Gives the processor away in between; when that took so short a time that nobody
 * wanted it, the mailbox alone is watched for a moment. True when it found something in time. */
static bool loop_spin(loop *loop, int64_t timeout) {
  int64_t budget = loop->spin_ns * (loop->roused ? SPIN_WAKE : 1);
  loop->roused = false;
  if (loop->spin_trust <= 0 || (timeout > 0 && timeout < budget)) return false;
  int64_t now = clock_now(), until = now + budget;
  bool found, late, alone = false;
  do {
    int64_t before = now;
    if (alone) spin_watch(loop->box);
    if (mailbox_empty(loop->box)) spin_give_way(loop);
    found = loop_busy(loop);
    now = clock_now();
    late = now >= until;
    alone = now - before < SPIN_ALONE_NS;
  } while (!found && !late);
  if (late)
    loop->spin_trust -= SPIN_LOSS;
  else if (loop->spin_trust < SPIN_TRUST)
    loop->spin_trust++;
  return found;
}

/* After a sleep: would spinning have spared it? Being woken from another core takes several
 * times as long as the answer did, hence the factor. Who answers may sleep for the same reason,
 * and both would go on so for ever: so the next spin lasts as long as a wake-up takes, after
 * which both are awake. A program that idles never gets here twice in a row. */
static void loop_slept(loop *loop, int64_t since) {
  if (loop->spin_ns == 0) return;
  loop->roused = clock_now() - since <= loop->spin_ns * SPIN_WAKE;
  if (!loop->roused)
    loop->spin_trust = 0;
  else if (loop->spin_trust < SPIN_TRUST)
    loop->spin_trust++;
}

void loop_turn(loop *loop, int64_t until) {
  /* A plain store could come behind the look at the queue and wipe out what was asked between. */
  if (atomic_load_explicit(&loop->interrupt, memory_order_relaxed))
    atomic_exchange(&loop->interrupt, 0);
  mailbox_run(loop->box, MAILBOX_CONTROL, loop);
  loop->now = loop->looked = clock_now();
  loop->slept = false;
  loop->since_look = 0;
  timer_advance(&loop->timers, loop->now);
  loop_work(loop);
  int64_t timeout = loop_timeout(loop, until);
  if (timeout == 0 && loop->lazy && poller_watches(loop->poller) == 1) return;
  if (timeout != 0 && loop_spin(loop, timeout)) return;
  if (timeout == 0 || !mailbox_sleep(loop->box)) {
    poller_wait(loop->poller, 0);
    return;
  }
  int64_t since = loop->spin_ns ? clock_now() : 0;
  loop->slept = true;
  poller_wait(loop->poller, timeout);
  mailbox_awake(loop->box);
  loop_slept(loop, since);
}
