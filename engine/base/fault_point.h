/* Places where a debug build can be told to go wrong, so that specs see what the engine makes of
 * it: bytes cut short, frames lost, links reset, memory refused. In builds without LP_FAULTS all of
 * this is nothing, and costs nothing.
 *
 * What goes wrong is said by the environment variable LP_FAULTS or by fault_points_set, in one
 * text (docs/architecture.md): rules `point:kind:probability` with commas between, then settings
 * `name=value` with semicolons, for instance
 *
 *   stream.write:short:0.1,frame.in:drop:0.01;seed=7;window=4
 *
 * Whether something happens depends on the seed, the point and how often the point was passed,
 * and on nothing else. Any thread may pass any point. The state is the process's: a debugging aid.
 */
#ifndef LP_BASE_FAULT_POINT_H
#define LP_BASE_FAULT_POINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum fault_point {
  FAULT_STREAM_READ,
  FAULT_STREAM_WRITE,
  FAULT_PIPE,       /* a flush of a pipe in memory */
  FAULT_FRAME,      /* a frame that came, before anything looks at it */
  FAULT_MEMORY,     /* the engine's own requests */
  FAULT_MEMORY_LUA, /* interpreters', which ask again after a collection */
  FAULT_POINTS
} fault_point;

typedef enum fault_kind {
  INJECT_NOTHING,
  INJECT_SHORT,     /* fewer bytes than asked for */
  INJECT_SPLIT,     /* what was one piece comes as two */
  INJECT_DELAY,     /* not now, a little later */
  INJECT_DROP,      /* never */
  INJECT_DUPLICATE, /* twice */
  INJECT_RESET,     /* the link is gone */
  INJECT_FAIL,      /* no memory */
  INJECT_KINDS
} fault_kind;

typedef enum fault_setting {
  FAULT_SEED,
  FAULT_WINDOW,   /* requests and notifications a link has credit for */
  FAULT_FIRST_ID, /* id of a link's first request */
  FAULT_SETTINGS
} fault_setting;

#ifdef LP_FAULTS

/* What is to happen at this pass. */
fault_kind fault_point_pass(fault_point point);
/* May anything happen there now? What passes the point by goes the way that does not, then. */
bool fault_point_has_rule(fault_point point);
/* For INJECT_SHORT and INJECT_SPLIT: where to cut `whole` units, from 1 to whole - 1 (1: 1). */
size_t fault_point_cut(fault_point point, size_t whole);
/* A setting's value, or `ordinary` when none was given. */
uint32_t fault_point_setting(fault_setting setting, uint32_t ordinary);

/* Replaces all rules and settings; NULL or "": none. False with `fault`: nothing is changed. */
bool fault_points_set(const char *text, fault *fault);
/* Reads LP_FAULTS, the first time it is called. False with `fault`: it makes no sense, and is
 * not heeded. (Passing a point reads it too.) */
bool fault_points_read(fault *fault);
/* Calls `tell` for each rule there can be with how often it has struck since the rules were set. */
void fault_points_count(void (*tell)(void *owner, const char *point, const char *kind,
                                     unsigned long count),
                        void *owner);

#else

static inline fault_kind fault_point_pass(fault_point point) {
  (void)point;
  return INJECT_NOTHING;
}

static inline bool fault_point_has_rule(fault_point point) {
  (void)point;
  return false;
}

static inline size_t fault_point_cut(fault_point point, size_t whole) {
  (void)point;
  return whole;
}

static inline uint32_t fault_point_setting(fault_setting setting, uint32_t ordinary) {
  (void)setting;
  return ordinary;
}

#endif
#endif
