/* The watchdog: notices a loop that runs the same piece of Lua for over a second. The loop is
 * interrupted and says itself what it does, if anybody waits for it (rpc/busy.h). One that does not
 * come to that is inside a C function; then it is said here. See host_parts.h. */
#include <stdio.h>

#include "api/host_parts.h"
#include "base/clock.h"
#include "process/orphans.h"
#include "runtime/inspect.h"
#include "runtime/interrupt.h"

enum { PERIOD_NS = 250000000, LONG_NS = 1000000000, REAP_NS = 1000000000, MOST_NUDGES = 4 };
#define LONG_IN_C_NS INT64_C(5000000000) /* when it is not known whether anybody waits */

/* Could somebody on a socket wait for a node of this loop? Its descriptors are not ours to ask. */
static bool serves(const host *host, const hosted_loop *hosted) {
  for (const list *each = host->nodes.next; each != &host->nodes; each = each->next) {
    const hosted_node *one = list_entry(each, const hosted_node, link);
    const node *node = atomic_load(&one->node);
    if (one->at == hosted && node && atomic_load(&node->state) == NODE_SERVING) return true;
  }
  return false;
}

static void say_in_c(host *host, hosted_loop *hosted, int64_t now) {
  char where[LOOP_WHERE * 8], words[FAULT_TEXT];
  watched *watched = &hosted->watched;
  bool waits = mailbox_has(hosted->loop->box, MAILBOX_MAIL);
  if (!waits && (now - watched->since < LONG_IN_C_NS || !serves(host, hosted))) return;
  interrupt_where(hosted->loop, where);
  int length =
      snprintf(words, sizeof words, "lp: warning: %s has been inside a C function for %.1f s%s\n",
               *where ? where : "a node", (double)(now - watched->since) * 1e-9,
               waits ? ", and others wait for it" : "");
  if (length > 0) host_say(host, words, (size_t)length);
  atomic_store(&hosted->loop->watched, watched->resumes + 1); /* it need not tell the same */
  watched->said = true;
}

/* It has run without a break for long. Each case is said once. */
static void on_long(host *host, hosted_loop *hosted, int64_t now) {
  watched *watched = &hosted->watched;
  loop *loop = hosted->loop;
  bool answered = atomic_load(&loop->answered);
  bool due = now - watched->asked_at >= LONG_NS;
  if (watched->asked_at && !answered) {
    if (due) say_in_c(host, hosted, now);
  } else if (watched->asked_at && atomic_load(&loop->watched) == watched->resumes + 1) {
    watched->said = true;
  } else if (due) { /* not asked yet, or nobody waited then */
    watched->asked_at = now;
    atomic_store(&loop->answered, false);
    inspect_busy(loop, watched->since);
  }
}

static void look_at(host *host, hosted_loop *hosted, int64_t now) {
  watched *watched = &hosted->watched;
  uint64_t resumes = atomic_load_explicit(&hosted->loop->resumes, memory_order_relaxed);
  bool runs = atomic_load(&hosted->loop->running) != NULL;
  if (!runs || watched->since == 0 || resumes != watched->resumes) {
    *watched = (struct watched){.resumes = resumes, .since = runs ? now : 0};
    return;
  }
  if (now - watched->since >= LONG_NS && !watched->said) on_long(host, hosted, now);
}

/* A signal that comes while Lua turns its last hook off may leave none behind. Then what is in the
 * control queue would wait as long as the node computes. (Not without end: C functions may be
 * disturbed in a wait.) */
static void nudge(hosted_loop *hosted) {
  loop *loop = hosted->loop;
  if (!atomic_load(&loop->running) || !mailbox_has(loop->box, MAILBOX_CONTROL)) {
    hosted->nudges = 0;
  } else if (hosted->nudges < MOST_NUDGES) {
    hosted->nudges++;
    interrupt_send(loop, INTERRUPT_CONTROL);
  }
}

/* What nodes have left running and has ended since. */
static void reap(host *host, int64_t now) {
  if (!host->options.adopts || now - host->reaped_at < REAP_NS) return;
  host->reaped_at = now;
  orphans_reap();
}

/* When it comes late itself the whole process was held up: no loop is to blame for that. */
static void on_watch(timer *timer) {
  host *host = list_entry(timer, struct host, watch);
  int64_t now = clock_now();
  bool held_up = now - host->watched_at > LONG_NS;
  host->watched_at = now;
  for (list *each = host->loops.next; each != &host->loops; each = each->next) {
    hosted_loop *hosted = list_entry(each, hosted_loop, link);
    if (held_up) hosted->watched.since = 0;
    nudge(hosted);
    if (!hosted->foreign) look_at(host, hosted, now); /* a main chunk may do what it likes */
  }
  if (!held_up) reap(host, now);
  timer_start(&host->engine.service->timers, timer, now + PERIOD_NS);
}

double host_watch_seconds(const hosted_loop *hosted) {
  int64_t since = hosted->watched.since;
  return since ? (double)(clock_now() - since) * 1e-9 : 0;
}

void host_watch_init(host *host) {
  timer_init(&host->watch, on_watch);
}

void host_watch_start(host *host) {
  if (!timer_running(&host->watch))
    timer_start(&host->engine.service->timers, &host->watch, clock_now());
}
