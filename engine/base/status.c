/* Names of statuses and the one way to describe a fault. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

const char *lp_strerror(lp_status status) {
  static const char *const names[] = {
      "ok",
      "cancelled",
      "unknown",
      "invalid_argument",
      "deadline_exceeded",
      "not_found",
      "already_exists",
      "permission_denied",
      "resource_exhausted",
      "failed_precondition",
      "aborted",
      "out_of_range",
      "unimplemented",
      "internal",
      "unavailable",
      "data_loss",
      "unauthenticated",
  };
  return (unsigned)status < sizeof names / sizeof *names ? names[status] : "unknown";
}

lp_status fault_set(fault *out, lp_status status, const char *format, ...) {
  if (out) {
    va_list args;
    va_start(args, format);
    out->status = status;
    vsnprintf(out->text, sizeof out->text, format, args);
    va_end(args);
  }
  return status;
}
