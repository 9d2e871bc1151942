/* See fault_point.h. */
#include "base/fault_point.h"

#ifdef LP_FAULTS

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BIT(kind) (1U << (kind))

static const struct {
  const char *name;
  unsigned kinds; /* that can happen there */
} points[FAULT_POINTS] = {
    [FAULT_STREAM_READ] = {"stream.read",
                           BIT(INJECT_SHORT) | BIT(INJECT_DELAY) | BIT(INJECT_RESET)},
    [FAULT_STREAM_WRITE] = {"stream.write",
                            BIT(INJECT_SHORT) | BIT(INJECT_DELAY) | BIT(INJECT_RESET)},
    [FAULT_PIPE] = {"pipe", BIT(INJECT_SPLIT) | BIT(INJECT_DELAY) | BIT(INJECT_RESET)},
    [FAULT_FRAME] = {"frame", BIT(INJECT_DROP) | BIT(INJECT_DELAY) | BIT(INJECT_DUPLICATE) |
                                  BIT(INJECT_RESET)},
    [FAULT_MEMORY] = {"memory", BIT(INJECT_FAIL)},
    [FAULT_MEMORY_LUA] = {"memory.lua", BIT(INJECT_FAIL)},
};

static const char *const kinds[INJECT_KINDS] = {NULL,   "short",     "split", "delay",
                                                "drop", "duplicate", "reset", "fail"};

static const char *const settings[FAULT_SETTINGS] = {"seed", "window", "first_id"};

/* Rules as written, before they are in force. */
typedef struct plan {
  uint32_t chance[FAULT_POINTS][INJECT_KINDS]; /* of 2^32 */
  uint32_t setting[FAULT_SETTINGS];
  bool given[FAULT_SETTINGS];
} plan;

static struct {
  pthread_once_t once;
  fault unread; /* why LP_FAULTS was not heeded */
  atomic_uint chance[FAULT_POINTS][INJECT_KINDS];
  atomic_bool any[FAULT_POINTS]; /* has a rule */
  atomic_uint setting[FAULT_SETTINGS];
  atomic_bool given[FAULT_SETTINGS];
  atomic_ulong passes[FAULT_POINTS], cuts[FAULT_POINTS];
  atomic_ulong struck[FAULT_POINTS][INJECT_KINDS];
} state = {.once = PTHREAD_ONCE_INIT};

/* ---- the text --------------------------------------------------------------- */

typedef struct reader {
  const char *at;
  plan plan;
  fault *fault;
} reader;

/* The word up to one of `ends` (or the text's end), cut to `size`; at the end mark behind it. */
static void read_word(reader *self, const char *ends, char *out, size_t size) {
  size_t length = strcspn(self->at, ends), kept = length < size ? length : size - 1;
  memcpy(out, self->at, kept);
  out[kept] = 0;
  self->at += length;
}

/* Is the next character `wanted`? Then it is passed. */
static bool pass_mark(reader *self, char wanted) {
  if (*self->at != wanted) return false;
  self->at++;
  return true;
}

static bool complain(const reader *self, const char *what, const char *word, const char *known) {
  fault_set(self->fault, LP_INVALID_ARGUMENT, "fault points: no %s \"%s\"; there are %s", what,
            word, known);
  return false;
}

static int find_point(const char *word) {
  for (int i = 0; i < FAULT_POINTS; i++)
    if (strcmp(points[i].name, word) == 0) return i;
  return -1;
}

static int find_kind(int point, const char *word) {
  for (int i = 1; i < INJECT_KINDS; i++)
    if (points[point].kinds & BIT(i) && strcmp(kinds[i], word) == 0) return i;
  return -1;
}

static void list_points(char *out, size_t size) {
  *out = 0;
  for (int i = 0; i < FAULT_POINTS; i++) {
    if (i) strncat(out, ", ", size - strlen(out) - 1);
    strncat(out, points[i].name, size - strlen(out) - 1);
  }
}

static void list_kinds(int point, char *out, size_t size) {
  *out = 0;
  for (int i = 1; i < INJECT_KINDS; i++) {
    if (!(points[point].kinds & BIT(i))) continue;
    if (*out) strncat(out, ", ", size - strlen(out) - 1);
    strncat(out, kinds[i], size - strlen(out) - 1);
  }
}

/* point:kind:probability */
static bool read_rule(reader *self) {
  char word[64], known[128], *rest;
  read_word(self, ":,;", word, sizeof word);
  int point = find_point(word);
  list_points(known, sizeof known);
  if (point < 0) return complain(self, "point", word, known);
  pass_mark(self, ':');
  read_word(self, ":,;", word, sizeof word);
  int kind = find_kind(point, word);
  list_kinds(point, known, sizeof known);
  if (kind < 0) return complain(self, "kind", word, known);
  pass_mark(self, ':');
  read_word(self, ",;", word, sizeof word);
  double chance = strtod(word, &rest);
  if (rest == word || *rest || !(chance >= 0 && chance <= 1))
    return complain(self, "probability", word, "numbers from 0 to 1");
  self->plan.chance[point][kind] = chance < 1 ? (uint32_t)(chance * 4294967296.0) : UINT32_MAX;
  return true;
}

/* name=value */
static bool read_setting(reader *self) {
  char word[64], *rest;
  int setting = 0;
  read_word(self, "=;", word, sizeof word);
  while (setting < FAULT_SETTINGS && strcmp(settings[setting], word) != 0) setting++;
  if (setting == FAULT_SETTINGS) return complain(self, "setting", word, "seed, window, first_id");
  pass_mark(self, '=');
  read_word(self, ";", word, sizeof word);
  unsigned long long value = strtoull(word, &rest, 10);
  if (rest == word || *rest || *word == '-' || value > UINT32_MAX)
    return complain(self, "value", word, "integers from 0 to 4294967295");
  self->plan.setting[setting] = (uint32_t)value;
  self->plan.given[setting] = true;
  return true;
}

/* Settings are told from rules by their equals sign, so that rules may be left out. */
static bool read_plan(reader *self) {
  bool rules = true;
  while (*self->at) {
    size_t word = strcspn(self->at, "=:,;");
    if (self->at[word] == '=') rules = false;
    if (!(rules ? read_rule(self) : read_setting(self))) return false;
    if (!pass_mark(self, rules ? ',' : ';') && pass_mark(self, ';')) rules = false;
  }
  return true;
}

static void put_in_force(const plan *wanted) {
  for (int i = 0; i < FAULT_POINTS; i++) {
    bool any = false;
    for (int k = 0; k < INJECT_KINDS; k++) {
      atomic_store(&state.chance[i][k], wanted->chance[i][k]);
      atomic_store(&state.struck[i][k], 0);
      any |= wanted->chance[i][k] > 0;
    }
    atomic_store(&state.passes[i], 0);
    atomic_store(&state.cuts[i], 0);
    atomic_store(&state.any[i], any);
  }
  for (int i = 0; i < FAULT_SETTINGS; i++) {
    atomic_store(&state.setting[i], wanted->setting[i]);
    atomic_store(&state.given[i], wanted->given[i]);
  }
}

static bool set(const char *text, fault *fault) {
  reader reader = {.at = text ? text : "", .fault = fault};
  if (!read_plan(&reader)) return false;
  put_in_force(&reader.plan);
  return true;
}

static void read_environment(void) {
  set(getenv("LP_FAULTS"), &state.unread);
}

static void read_once(void) {
  pthread_once(&state.once, read_environment);
}

bool fault_points_read(fault *fault) {
  read_once();
  if (state.unread.status == LP_OK) return true;
  *fault = state.unread;
  return false;
}

bool fault_points_set(const char *text, fault *fault) {
  read_once(); /* or it would come later and replace this */
  return set(text, fault);
}

void fault_points_count(void (*tell)(void *owner, const char *point, const char *kind,
                                     unsigned long count),
                        void *owner) {
  for (int i = 0; i < FAULT_POINTS; i++)
    for (int k = 1; k < INJECT_KINDS; k++)
      if (points[i].kinds & BIT(k))
        tell(owner, points[i].name, kinds[k], atomic_load(&state.struck[i][k]));
}

/* ---- passing ---------------------------------------------------------------- */

/* splitmix64's step: every input bit counts for every output bit. */
static uint64_t mix(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* The `number`-th draw of a point, 32 bits. */
static uint32_t draw(int point, uint64_t number) {
  uint64_t seed = atomic_load_explicit(&state.setting[FAULT_SEED], memory_order_relaxed);
  return (uint32_t)(mix(mix(seed << 8 | (unsigned)point) ^ number) >> 32);
}

bool fault_point_has_rule(fault_point point) {
  read_once();
  return atomic_load_explicit(&state.any[point], memory_order_relaxed);
}

fault_kind fault_point_pass(fault_point point) {
  if (!fault_point_has_rule(point)) return INJECT_NOTHING;
  uint64_t left = draw(point, atomic_fetch_add(&state.passes[point], 1));
  for (int kind = 1; kind < INJECT_KINDS; kind++) {
    uint32_t chance = atomic_load_explicit(&state.chance[point][kind], memory_order_relaxed);
    if (left < chance || (chance == UINT32_MAX && left == chance)) {
      atomic_fetch_add(&state.struck[point][kind], 1);
      return (fault_kind)kind;
    }
    left -= chance;
  }
  return INJECT_NOTHING;
}

size_t fault_point_cut(fault_point point, size_t whole) {
  if (whole <= 1) return whole;
  uint64_t number = atomic_fetch_add(&state.cuts[point], 1);
  /* Numbers of their own, so that a cut does not go with the draw that led to it. Often one byte.
   */
  uint32_t drawn = draw(point, ~number);
  return drawn % 4 == 0 ? 1 : 1 + drawn % (whole - 1);
}

uint32_t fault_point_setting(fault_setting setting, uint32_t ordinary) {
  read_once();
  if (!atomic_load_explicit(&state.given[setting], memory_order_relaxed)) return ordinary;
  return atomic_load_explicit(&state.setting[setting], memory_order_relaxed);
}

#else
typedef int fault_point_is_empty; /* a translation unit needs something */
#endif
