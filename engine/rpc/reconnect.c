/* See reconnect.h. */
#include "rpc/reconnect.h"

#include "base/clock.h"

void reconnect_begin(reconnect *self, int64_t now) {
  *self = (reconnect){.since = now,
                      .retry_at = CLOCK_NEVER,
                      .greet_by = CLOCK_NEVER,
                      .notice_at = now + RECONNECT_NOTICE_NS};
}

void reconnect_tried(reconnect *self, int64_t now, bool greets) {
  self->retry_at = CLOCK_NEVER;
  self->greet_by = greets ? now + RECONNECT_GREET_NS : CLOCK_NEVER;
}

/* The back-off after so many failures, before its jitter. */
static int64_t backoff(uint32_t failures) {
  int64_t delay = RECONNECT_FIRST_NS;
  for (uint32_t i = 1; i < failures && delay < RECONNECT_LAST_NS; i++) delay *= 2;
  return delay < RECONNECT_LAST_NS ? delay : RECONNECT_LAST_NS;
}

void reconnect_failed(reconnect *self, int64_t now, uint32_t random) {
  if (self->failures < UINT32_MAX) self->failures++;
  int64_t half = backoff(self->failures) / 2;
  self->greet_by = CLOCK_NEVER;
  /* Half of it at random, so that those who lost the same server do not all come at once. */
  self->retry_at = now + half + half * (int64_t)random / UINT32_MAX;
}

void reconnect_hold(reconnect *self) {
  self->retry_at = self->greet_by = CLOCK_NEVER;
}

int64_t reconnect_due(const reconnect *self) {
  int64_t due = self->notice_at;
  if (self->greet_by < due) due = self->greet_by;
  if (self->retry_at < due) due = self->retry_at;
  return due;
}

reconnect_act reconnect_next(reconnect *self, int64_t now) {
  if (now >= self->notice_at) {
    self->notice_at = CLOCK_NEVER;
    return RECONNECT_NOTICE;
  }
  if (now >= self->greet_by) {
    self->greet_by = CLOCK_NEVER;
    return RECONNECT_SILENT;
  }
  if (now >= self->retry_at) {
    self->retry_at = CLOCK_NEVER;
    return RECONNECT_RETRY;
  }
  return RECONNECT_NOTHING;
}
