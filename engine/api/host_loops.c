/* Loops that host nodes: which one a new node gets, and the time slices of those that nodes
 * share. See host_parts.h. */
#include <string.h>

#include "api/host_parts.h"
#include "base/clock.h"
#include "base/memory.h"
#include "runtime/interrupt.h"

enum {
  SLICE_NS = 10000000,
  SLICE_LEAST_NS = 1000000 /* a shorter one would cost more than it gives */
};

/* While there are loops with slices: whoever has run since the last tick gives way. */
static void on_tick(timer *timer) {
  host *host = list_entry(timer, struct host, tick);
  for (list *each = host->loops.next; each != &host->loops; each = each->next) {
    hosted_loop *hosted = list_entry(each, hosted_loop, link);
    uint64_t resumes = atomic_load_explicit(&hosted->loop->resumes, memory_order_relaxed);
    if (hosted->shared && atomic_load(&hosted->loop->running) && resumes == hosted->seen)
      interrupt_send(hosted->loop, INTERRUPT_SLICE);
    hosted->seen = resumes;
  }
  if (host->shared_loops)
    timer_start(&host->engine.service->timers, timer, clock_now() + host->slice_ns);
}

static void loop_shared(host *host, hosted_loop *hosted) {
  if (hosted->shared) return;
  hosted->shared = true;
  if (host->shared_loops++ == 0)
    timer_start(&host->engine.service->timers, &host->tick, clock_now() + host->slice_ns);
}

void host_loop_slice(host *host, hosted_loop *hosted, int64_t slice_ns) {
  if (slice_ns < host->slice_ns)
    host->slice_ns = slice_ns < SLICE_LEAST_NS ? SLICE_LEAST_NS : slice_ns;
  loop_shared(host, hosted);
}

static hosted_loop *loop_make(host *host, const char *name, fault *fault) {
  hosted_loop *made = mem_new(sizeof *made);
  if (!made) {
    fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for a loop");
    return NULL;
  }
  made->loop = loop_new(&host->engine, name, fault);
  if (made->loop) made->loop->spin_ns = host->engine.spin_ns;
  if (!made->loop || loop_start(made->loop, fault) != LP_OK) {
    loop_free(made->loop);
    mem_free(made);
    return NULL;
  }
  list_push(&host->loops, &made->link);
  return made;
}

void host_loop_drop(host *host, hosted_loop *hosted) {
  if (hosted->shared) host->shared_loops--;
  list_remove(&hosted->link);
  if (!hosted->foreign) {
    loop_quit(hosted->loop);
    loop_free(hosted->loop);
  }
  mem_free(hosted);
}

hosted_loop *host_loop_choose(host *host, const char *name, lua_Integer threads, fault *fault) {
  hosted_loop *least = NULL;
  lua_Integer count = 0;
  for (list *each = host->loops.next; each != &host->loops; each = each->next) {
    hosted_loop *hosted = list_entry(each, hosted_loop, link);
    if (name && strcmp(hosted->loop->name, name) == 0) {
      loop_shared(host, hosted);
      return hosted;
    }
    if (hosted->loop->name[0]) continue; /* somebody's choice, or the main thread's */
    count++;
    if (!least || atomic_load(&hosted->loop->node_count) < atomic_load(&least->loop->node_count))
      least = hosted;
  }
  if (name || count < threads || !least) return loop_make(host, name ? name : "", fault);
  loop_shared(host, least);
  return least;
}

void host_loops_init(host *host) {
  timer_init(&host->tick, on_tick);
  host->slice_ns = SLICE_NS;
}
