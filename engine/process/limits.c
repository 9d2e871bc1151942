/* See limits.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "process/limits.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static lp_status set_nice(const char *text, fault *fault) {
  errno = 0;
  if (nice(atoi(text)) != -1 || errno == 0) return LP_OK;
  return fault_set(fault, LP_PERMISSION_DENIED, "cannot set nice = %s: %s", text, strerror(errno));
}

static lp_status set_affinity(const char *text, fault *fault) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const char *given = text;
  for (char *end; *text; text = *end == ',' ? end + 1 : end) {
    unsigned long core = strtoul(text, &end, 10);
    if (end == text || core >= CPU_SETSIZE) break;
    CPU_SET(core, &cores);
  }
  if (sched_setaffinity(0, sizeof cores, &cores) == 0) return LP_OK;
  /* EINVAL: none of these cores is there, or ours to use. */
  const char *why = errno == EINVAL ? "none of these cores can be used here" : strerror(errno);
  return fault_set(fault, LP_INVALID_ARGUMENT, "cannot set affinity = %s: %s", given, why);
}

lp_status limits_apply(const char *nice_text, const char *affinity, fault *fault) {
  lp_status status = affinity ? set_affinity(affinity, fault) : LP_OK;
  if (status == LP_OK && nice_text) status = set_nice(nice_text, fault);
  return status;
}
