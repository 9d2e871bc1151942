/* See connecting.h. */
#include "rpc/connecting.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "rpc/methods.h"
#include "rpc/pending.h"
#include "runtime/lines.h"

static void on_timer(timer *fired);

static timer_wheel *wheel_of(const peer *peer) {
  return &peer->rpc->node->loop->timers;
}

bool connecting_begin(peer *peer) {
  if (peer->connecting) return true;
  connecting *made = mem_new(sizeof *made);
  if (!made) return false;
  made->peer = peer_ref(peer);
  timer_init(&made->timer, on_timer);
  reconnect_begin(&made->tries, clock_now());
  peer->connecting = made;
  return true;
}

void connecting_end(peer *peer) {
  connecting *self = peer->connecting;
  if (!self) return;
  peer->connecting = NULL;
  timer_stop(wheel_of(peer), &self->timer);
  early_fini(&self->early);
  mem_free(self);
  peer_unref(peer);
}

static void set_timer(connecting *self) {
  timer_start(wheel_of(self->peer), &self->timer, reconnect_due(&self->tries));
}

/* ---- calls ------------------------------------------------------------------ */

static int64_t time_left(void *owner, uint32_t id) {
  const pending *call = pending_of(owner, id);
  int64_t due = call ? pending_due(call) : CLOCK_NEVER;
  return due == CLOCK_NEVER ? CLOCK_NEVER : due - clock_now();
}

bool connecting_opened(peer *peer, fault *fault) {
  buffer *out = link_out(&peer->wire);
  if (peer->connecting && (!out || !early_send(&peer->connecting->early, out, time_left, peer))) {
    fault_set(fault, LP_RESOURCE_EXHAUSTED, "out of memory");
    return false;
  }
  loop_dirty(peer->rpc->node->loop, &peer->flushable);
  connecting_end(peer);
  return true;
}

bool connecting_add(peer *peer, size_t start, const pending *call, bool waits) {
  return early_add(&peer->connecting->early, start, call ? call->id : 0, !call, waits);
}

bool connecting_drop(peer *peer, const pending *call) {
  connecting *self = peer->connecting;
  size_t bytes = self ? early_drop(&self->early, call->id) : 0;
  if (!bytes) return false;
  if (!peer->frame_start) early_tidy(&self->early);
  peer_credit(peer, 1, bytes);
  return true;
}

bool connecting_has(const peer *peer, const pending *call) {
  return peer->connecting && early_has(&peer->connecting->early, call->id);
}

static bool keep_unsent(void *owner, uint32_t id, bool notify, const char *method, size_t length,
                        bool *waits) {
  const pending *call = notify ? NULL : pending_of(owner, id);
  *waits = true;
  if (notify) return !methods_reserved(method, length);
  return call && call->waits;
}

bool connecting_rescue(peer *peer) {
  size_t length = 0, sent = 0;
  const uint8_t *data = link_is_open(&peer->wire) ? link_unsent(&peer->wire, &length, &sent) : NULL;
  if (sent >= length || !peer->target || peer->frame_start || peer->rpc->node->closing)
    return false;
  if (!connecting_begin(peer)) return false;
  early *early = &peer->connecting->early;
  if (early_take(early, data, length, sent, keep_unsent, peer) && early->live > 0) return true;
  connecting_end(peer);
  return false;
}

void connecting_charge(peer *peer) {
  const early *early = &peer->connecting->early;
  for (size_t i = 0; i < early->count; i++) {
    peer->window--;
    peer->window_bytes -= (int64_t)early->frames[i].length;
  }
}

/* ---- failing ---------------------------------------------------------------- */

static void tell_unsent(const peer *peer, unsigned count, const char *why) {
  char text[FAULT_TEXT + 64];
  if (!count) return;
  int length = snprintf(text, sizeof text, "%u notification%s not sent: %s", count,
                        count == 1 ? " was" : "s were", why);
  lines_log(peer->rpc->node, 2, text,
            (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

/* Fails what does not wait for the server. */
static void fail_hasty(peer *peer, const char *text) {
  early *early = &peer->connecting->early;
  unsigned unsent = 0;
  for (size_t i = 0; i < early->count; i++) {
    early_frame each = early->frames[i];
    if (each.dead || each.waits) continue;
    early_drop_at(early, i);
    peer_credit(peer, 1, each.length);
    pending *call = each.notify ? NULL : pending_of(peer, each.id);
    if (call) peer_fail_call(peer, call, LP_UNAVAILABLE, text);
    if (each.notify) unsent++;
  }
  if (!peer->frame_start) early_tidy(early);
  tell_unsent(peer, unsent, text);
}

/* The link, if there was half of one, is let go of; who does not wait fails. False: nobody is
 * left who waits, and the peer is idle. */
static bool fall_back(peer *peer, const char *why) {
  link_close(&peer->wire);
  peer_reset_splitter(peer);
  peer->trouble = PEER_FAILED;
  peer->state = PEER_WAITING;
  peer_set_end(peer, LP_UNAVAILABLE, why);
  fail_hasty(peer, why);
  connecting *self = peer->connecting;
  if (self->early.live > 0 || self->about_to || peer->frame_start) return true;
  peer->state = PEER_IDLE;
  connecting_end(peer);
  return false;
}

/* Evenly spread bits; the clock is seed enough for spreading tries. */
static uint32_t some_bits(const peer *peer) {
  uint64_t seed = (uint64_t)clock_now() ^ (uint64_t)(uintptr_t)peer;
  return (uint32_t)((seed * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

static bool is_trying(const peer *peer) {
  return peer->connecting && (peer->state == PEER_CONNECTING || peer->state == PEER_HELLO);
}

void connecting_failed(peer *peer, const char *why) {
  if (!is_trying(peer)) return;
  char text[FAULT_TEXT];
  peer_unreached(peer, why, text, sizeof text);
  peer_ref(peer);
  if (fall_back(peer, text)) {
    reconnect_failed(&peer->connecting->tries, clock_now(), some_bits(peer));
    set_timer(peer->connecting);
  }
  peer_wake(peer);
  peer_unref(peer);
}

bool connecting_watched(peer *peer, const char *why) {
  if (!is_trying(peer)) return false;
  char text[FAULT_TEXT];
  peer_unreached(peer, why, text, sizeof text);
  peer_ref(peer);
  bool wanted = fall_back(peer, text);
  if (wanted) {
    reconnect_hold(&peer->connecting->tries);
    set_timer(peer->connecting);
  }
  peer_wake(peer);
  peer_unref(peer);
  return wanted;
}

void connecting_lost(peer *peer, const char *why) {
  unsigned unsent = 0;
  const early *early = &peer->connecting->early;
  for (size_t i = 0; i < early->count; i++)
    if (early->frames[i].notify && !early->frames[i].dead) unsent++;
  tell_unsent(peer, unsent, why);
}

/* ---- time ------------------------------------------------------------------- */

void connecting_tried(peer *peer, bool greets) {
  connecting *self = peer->connecting;
  self->last_try = clock_now();
  reconnect_tried(&self->tries, self->last_try, greets);
  set_timer(self);
}

/* Words for what is being waited for. */
static const char *reason(const peer *peer) {
  if (peer->state == PEER_HELLO) return "it accepts and says nothing";
  if (peer->end_text) return peer->end_text;
  return peer->wire.stream ? "the connection is being made" : "it is not known yet where it is";
}

static void say_waiting(const peer *peer) {
  char text[FAULT_TEXT + 128];
  int length = snprintf(text, sizeof text, "has waited %d s for %s%s: %s",
                        (int)(RECONNECT_NOTICE_NS / 1000000000),
                        peer_is_address(peer) ? "" : "node ", peer->name, reason(peer));
  lines_log(peer->rpc->node, 2, text,
            (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

static void act(peer *peer, reconnect_act what) {
  char text[160];
  switch (what) {
    case RECONNECT_NOTICE:
      if (peer->connecting->early.live > 0) say_waiting(peer);
      break;
    case RECONNECT_SILENT:
      snprintf(
          text, sizeof text,
          "the server there accepts and has said nothing for %d s: it speaks another protocol, "
          "is stopped, or busy",
          (int)(RECONNECT_GREET_NS / 1000000000));
      connecting_failed(peer, text);
      break;
    case RECONNECT_RETRY:
      if (peer->connecting->early.live > 0) {
        peer_try(peer);
      } else { /* all have given up meanwhile */
        peer->state = PEER_IDLE;
        connecting_end(peer);
      }
      break;
    case RECONNECT_NOTHING: break;
  }
}

static void on_timer(timer *fired) {
  connecting *self = list_entry(fired, connecting, timer);
  peer *peer = peer_ref(self->peer);
  int64_t now = clock_now();
  reconnect_act what;
  while (peer->connecting == self &&
         (what = reconnect_next(&self->tries, now)) != RECONNECT_NOTHING)
    act(peer, what);
  if (peer->connecting == self) set_timer(self);
  peer_unref(peer);
}
