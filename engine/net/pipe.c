/* See pipe.h. A parcel is a message that carries a buffer to one end. Both ends live in
 * one allocation that is freed when the two owners and every parcel under way have let
 * go of it; an end whose owner left drops what still arrives. */
#include "net/pipe.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/hot.h"
#include "base/list.h"
#include "base/memory.h"

enum {
  PARCEL_KEEP = 1 << 20,  /* larger buffers are not kept for reuse, */
  PARCEL_SMALL = 8 << 10, /* and of those above this one only one */
  PARCELS_KEPT = 8
};

typedef struct parcel {
  message message;
  pipe_end *to;
  int64_t given; /* see pipe_given */
  buffer bytes;
} parcel;

typedef struct pipe pipe;

struct pipe_end {
  pipe *pipe;
  pipe_end *other;
  mailbox *box; /* of the loop that uses this end */
  const stream_events *events;
  void *owner;
  parcel *filling; /* what pipe_out appends to */
  parcel *spare;   /* empty ones by message.next, their buffers allocated */
  int spares;
  int64_t given;           /* of the parcel that arrives */
  message closing;         /* what pipe_free sends, so that closing needs no memory */
  atomic_size_t under_way; /* bytes sent from here that the other end has not taken up */
  bool crosses;            /* the other end is on another loop */
  bool spared;             /* from faults that are injected */
  bool unwoken;            /* something was handed over and nobody woken */
  atomic_bool open;
};

struct pipe {
  atomic_int references; /* owners and parcels under way */
  pipe_end ends[2];
};

static void parcel_free(parcel *sent) {
  if (!sent) return;
  buffer_fini(&sent->bytes);
  mem_free(sent);
}

static parcel *spare_pop(pipe_end *end) {
  parcel *found = end->spare;
  if (!found) return NULL;
  end->spare = (parcel *)found->message.next;
  end->spares--;
  return found;
}

/* Keeps an empty parcel for later, or frees it. */
static void spare_push(pipe_end *end, parcel *empty) {
  size_t capacity = empty->bytes.capacity;
  bool keep = capacity <= PARCEL_SMALL ? end->spares < PARCELS_KEPT
                                       : capacity <= PARCEL_KEEP && !end->spare;
  if (!keep) {
    parcel_free(empty);
    return;
  }
  empty->bytes.length = 0;
  empty->message.next = (message *)end->spare;
  end->spare = empty;
  end->spares++;
}

static void pipe_unref(pipe *shared) {
  if (atomic_fetch_sub(&shared->references, 1) != 1) return;
  for (int i = 0; i < 2; i++) {
    parcel_free(shared->ends[i].filling);
    for (parcel *spare; (spare = spare_pop(&shared->ends[i]));) parcel_free(spare);
    mailbox_unref(shared->ends[i].box);
  }
  mem_free(shared);
}

static void parcel_drop(message *carried) {
  parcel *dropped = (parcel *)carried;
  pipe *shared = dropped->to->pipe;
  parcel_free(dropped);
  pipe_unref(shared);
}

/* On the receiving end's loop. The end may be freed by its own callback. */
static void parcel_run(message *carried, void *loop) {
  (void)loop;
  parcel *arrived = (parcel *)carried;
  pipe_end *end = arrived->to;
  pipe *shared = end->pipe;
  atomic_fetch_sub_explicit(&end->other->under_way, arrived->bytes.length, memory_order_relaxed);
  end->given = arrived->given;
  if (atomic_load(&end->open) && arrived->bytes.length)
    end->events->on_data(end->owner, arrived->bytes.data, arrived->bytes.length);
  if (atomic_load(&end->open))
    spare_push(end, arrived);
  else
    parcel_free(arrived);
  pipe_unref(shared);
}

static void closing_drop(message *carried) {
  pipe_unref(list_entry(carried, pipe_end, closing)->pipe);
}

static void closing_run(message *carried, void *loop) {
  (void)loop;
  pipe_end *end = list_entry(carried, pipe_end, closing)->other;
  if (atomic_load(&end->open))
    end->events->on_close(end->owner, LP_UNAVAILABLE, "the other end was closed");
  closing_drop(carried);
}

static parcel *parcel_new(void) {
  parcel *sent = mem_new(sizeof *sent);
  if (!sent) return NULL;
  sent->message.run = parcel_run;
  sent->message.drop = parcel_drop;
  return sent;
}

bool pipe_new(mailbox *box_a, mailbox *box_b, pipe_end **a, pipe_end **b) {
  pipe *made = mem_new(sizeof *made);
  if (!made) return false;
  atomic_init(&made->references, 2);
  for (int i = 0; i < 2; i++) {
    pipe_end *end = &made->ends[i];
    end->pipe = made;
    end->other = &made->ends[!i];
    end->box = mailbox_ref(i ? box_b : box_a);
    end->closing = (message){.run = closing_run, .drop = closing_drop};
    end->crosses = box_a != box_b;
    atomic_init(&end->open, true);
  }
  *a = &made->ends[0];
  *b = &made->ends[1];
  return true;
}

void pipe_attach(pipe_end *end, const stream_events *events, void *owner) {
  end->events = events;
  end->owner = owner;
}

buffer *pipe_out(pipe_end *end) {
  if (!end->filling) {
    end->filling = spare_pop(end);
    if (!end->filling) end->filling = parcel_new();
  }
  return end->filling ? &end->filling->bytes : NULL;
}

/* False: the other end's loop is gone, and the parcel still the caller's. */
static bool parcel_send(pipe_end *end, parcel *sent) {
  sent->to = end->other;
  sent->given = clock_coarse() + CLOCK_COARSE_NS;
  atomic_fetch_add_explicit(&end->under_way, sent->bytes.length, memory_order_relaxed);
  atomic_fetch_add(&end->pipe->references, 1);
  if (mailbox_put(end->other->box, MAILBOX_MAIL, &sent->message)) {
    end->unwoken = end->unwoken || mailbox_sleeps(end->other->box);
    return true;
  }
  pipe_unref(end->pipe);
  return false;
}

/* The same, but then it stays what pipe_out appends to. */
static bool send_whole(pipe_end *end, parcel *sent) {
  bool gone = parcel_send(end, sent);
  if (!gone) end->filling = sent;
  return gone;
}

/* ---- injected faults (fault_point.h) ----------------------------------------- */

/* To the end's own loop, about a flush that was delayed. */
typedef struct late {
  message message;
  pipe_end *end;
} late;

static void late_drop(message *carried) {
  pipe_unref(((late *)carried)->end->pipe);
  mem_free(carried);
}

static void late_run(message *carried, void *loop) {
  (void)loop;
  pipe_end *end = ((late *)carried)->end;
  if (atomic_load(&end->open) && !pipe_flush(end))
    end->events->on_close(end->owner, LP_UNAVAILABLE, "the other end is gone");
  late_drop(carried);
}

/* The flush happens when this loop comes to its mail again. False: it cannot be put off. */
static bool flush_later(pipe_end *end) {
  late *made = mem_new(sizeof *made);
  if (!made) return false;
  *made = (late){{.run = late_run, .drop = late_drop}, end};
  atomic_fetch_add(&end->pipe->references, 1);
  if (mailbox_push(end->box, MAILBOX_MAIL, &made->message)) return true;
  late_drop(&made->message);
  return false;
}

/* Two parcels for one. Without memory for another it stays one. */
static bool send_split(pipe_end *end, parcel *sent) {
  size_t first = fault_point_cut(FAULT_PIPE, sent->bytes.length);
  parcel *rest = parcel_new();
  if (!rest || !buffer_append(&rest->bytes, sent->bytes.data + first, sent->bytes.length - first)) {
    parcel_free(rest);
    return send_whole(end, sent);
  }
  size_t whole = sent->bytes.length;
  sent->bytes.length = first;
  bool begun = parcel_send(end, sent);
  if (begun && parcel_send(end, rest)) return true;
  parcel_free(rest);
  if (begun) return false;
  sent->bytes.length = whole;
  end->filling = sent;
  return false;
}

/* ---- flushing ---------------------------------------------------------------- */

bool pipe_hand_over(pipe_end *end) {
  if (!end->filling || !end->filling->bytes.length) return true;
  fault_kind injected = end->spared ? INJECT_NOTHING : fault_point_pass(FAULT_PIPE);
  if (injected == INJECT_DELAY && flush_later(end)) return true;
  if (injected == INJECT_RESET || !atomic_load(&end->other->open)) return false;
  parcel *sent = end->filling;
  end->filling = NULL;
  return injected == INJECT_SPLIT ? send_split(end, sent) : send_whole(end, sent);
}

bool pipe_flush(pipe_end *end) {
  bool well = pipe_hand_over(end);
  if (end->unwoken) mailbox_wake(end->other->box);
  end->unwoken = false;
  return well;
}

bool pipe_crosses(const pipe_end *end) {
  return end->crosses;
}

HOT_SHARED void *pipe_owner_here(const pipe_end *end) {
  const pipe_end *other = end->other;
  if (end->crosses || !atomic_load_explicit(&other->open, memory_order_relaxed)) return NULL;
  return other->owner;
}

HOT_SHARED void *pipe_near(const pipe_end *end) {
#ifdef LP_FAULTS
  if (!pipe_is_flushed(end)) return NULL; /* its flush was put off */
#endif
  return atomic_load_explicit(&end->under_way, memory_order_relaxed) ? NULL : pipe_owner_here(end);
}

int64_t pipe_given(const pipe_end *end) {
  return end->given;
}

bool pipe_is_flushed(const pipe_end *end) {
  return !end->unwoken && (!end->filling || !end->filling->bytes.length);
}

const uint8_t *pipe_unsent(const pipe_end *end, size_t *length) {
  *length = end->filling ? end->filling->bytes.length : 0;
  return *length ? end->filling->bytes.data : NULL;
}

void pipe_spare(pipe_end *end) {
  end->spared = true;
}

size_t pipe_queued(const pipe_end *end) {
  size_t sent = atomic_load_explicit(&end->under_way, memory_order_relaxed);
  return sent + (end->filling ? end->filling->bytes.length : 0);
}

void pipe_free(pipe_end *end) {
  if (!end) return;
  pipe_spare(end); /* a delay would have no end */
  pipe_flush(end);
  atomic_store(&end->open, false);
  pipe *shared = end->pipe;
  atomic_fetch_add(&shared->references, 1);
  if (!mailbox_push(end->other->box, MAILBOX_MAIL, &end->closing)) closing_drop(&end->closing);
  pipe_unref(shared);
}
