/* See peer_faults.h. */
#include "rpc/peer_faults.h"

#ifdef LP_FAULTS

#include "base/clock.h"
#include "base/memory.h"
#include "rpc/methods.h"

enum { LATE_LEAST_NS = 100000, LATE_MOST_NS = 5000000 };

/* A frame that comes late. */
typedef struct late {
  list link; /* peer->late_frames */
  timer timer;
  peer *peer;
  size_t length;
  uint8_t bytes[];
} late;

static void late_free(late *kept) {
  timer_stop(&kept->peer->rpc->node->loop->timers, &kept->timer);
  list_remove(&kept->link);
  mem_free(kept);
}

static void late_due(timer *timer) {
  late *kept = list_entry(timer, late, timer);
  peer *peer = peer_ref(kept->peer);
  list_remove(&kept->link);
  list_init(&kept->link);
  peer_take_late(peer, kept->bytes, kept->length);
  mem_free(kept);
  peer_unref(peer);
}

static bool keep(peer *peer, const uint8_t *data, size_t length) {
  late *kept = mem_alloc(sizeof *kept + length);
  if (!kept) return false;
  kept->peer = peer;
  kept->length = length;
  memcpy(kept->bytes, data, length);
  timer_init(&kept->timer, late_due);
  list_init(&kept->link);
  list_push(&peer->late_frames, &kept->link);
  int64_t span = (int64_t)fault_point_cut(FAULT_FRAME, LATE_MOST_NS);
  timer_start(&peer->rpc->node->loop->timers, &kept->timer, clock_now() + LATE_LEAST_NS + span);
  return true;
}

static bool is_service(const char *name) {
  return name && strcmp(name, "service") == 0;
}

/* The service is policy: what becomes of a program without it is not asked here. */
static bool spares(const peer *peer) {
  return is_service(peer->rpc->node->key) || is_service(peer->target) || is_service(peer->name);
}

/* The engine's own messages: hello, credit, cancel, farewell. */
static bool is_own(const frame *frame) {
  return frame->kind != FRAME_RESPONSE && methods_reserved(frame->method, frame->method_length);
}

fault_kind peer_fault(peer *peer, const frame *frame, const uint8_t *data, size_t length) {
  if (peer->state != PEER_OPEN || is_own(frame) || spares(peer)) return INJECT_NOTHING;
  fault_kind injected = fault_point_pass(FAULT_FRAME);
  if (injected == INJECT_DELAY && !keep(peer, data, length)) return INJECT_NOTHING;
  return injected;
}

void peer_faults_link(peer *peer) {
  if (spares(peer)) link_spare(&peer->wire);
}

void peer_faults_forget(peer *peer) {
  while (!list_empty(&peer->late_frames)) late_free(list_entry(peer->late_frames.next, late, link));
}

#else
typedef int peer_faults_is_empty; /* a translation unit needs something */
#endif
