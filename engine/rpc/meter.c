/* See meter.h. */
#include "rpc/meter.h"

#include "base/memory.h"

enum { NAME_LIMIT = 200 }; /* nobody reads on */

static unsigned slot_of(const char *name, size_t length) {
  uint32_t hash = (uint32_t)length;
  for (size_t i = 0; i < length; i++) hash = (hash ^ (uint8_t)name[i]) * 16777619u;
  return (hash ^ hash >> 15) % METER_SLOTS;
}

static meter *meter_new(meter **place, const char *name, size_t length) {
  meter *made = mem_new(sizeof *made + length + 1 + METER_SLACK);
  if (!made) return NULL;
  made->length = length;
  memcpy(made->name, name, length);
  *place = made;
  return made;
}

/* The link that leads to the meter of this name, or the NULL link it would be put in. */
static meter **place_of(meters *meters, const char *name, size_t length) {
  meter **place = &meters->slots[slot_of(name, length)];
  for (; *place; place = &(*place)->next)
    if ((*place)->length == length && memcmp((*place)->name, name, length) == 0) break;
  return place;
}

meter *meter_find(meters *meters, const char *name, size_t length) {
  bool others = length > NAME_LIMIT;
  if (others) length = NAME_LIMIT;
  meter **place = place_of(meters, name, length);
  if (!*place && meters->count >= METER_NAMES) {
    name = METER_OTHERS;
    length = strlen(name);
    others = true;
    place = place_of(meters, name, length);
  }
  if (!*place && meter_new(place, name, length)) meters->count++;
  if (*place && others) (*place)->others = true;
  return meters->last = *place;
}

static void times_free(histogram *times) {
  if (!times) return;
  histogram_fini(times);
  mem_free(times);
}

void meters_fini(meters *meters) {
  for (int i = 0; i < METER_SLOTS; i++) {
    for (meter *each = meters->slots[i], *next; each; each = next) {
      next = each->next;
      times_free(each->times);
      mem_free(each);
    }
    meters->slots[i] = NULL;
  }
}

void link_meter_fini(link_meter *link) {
  times_free(link->times);
  link->times = NULL;
}

/* Looks at the rate, and at how many calls are to pass untimed from now on. */
static void check_rate(link_meter *link, int64_t now) {
  uint64_t calls = link->calls - link->checked;
  int64_t span = now - link->checked_at;
  bool busy = link->checked_at && (double)calls * 1e9 > (double)span * METER_BUSY;
  link->every = busy ? METER_EVERY : 1;
  link->checked = link->calls;
  link->checked_at = now;
  link->check_at = now + METER_CHECK_NS;
}

void meter_time(link_meter *link, stopwatch *watch) {
  int64_t now = clock_now();
  if (now >= link->check_at || link->every == 0) check_rate(link, now);
  link->left = link->every;
  watch->began = now;
  watch->weight = (uint32_t)(link->calls - link->timed);
  link->timed = link->calls;
}

static void record(histogram **times, uint64_t span, uint32_t weight) {
  if (!*times) *times = mem_new(sizeof **times);
  if (*times) histogram_record(*times, span, weight);
}

void meter_record(link_meter *link, const stopwatch *watch) {
  int64_t span = clock_now() - watch->began;
  record(&link->times, span > 0 ? (uint64_t)span : 0, watch->weight);
  if (watch->meter) record(&watch->meter->times, span > 0 ? (uint64_t)span : 0, watch->weight);
}
