/* Outcome of an engine operation. Every function that can fail for a reason a
 * user, a file or the network may cause returns one of these; the names are the
 * sixteen of gRPC, so a status becomes an lp.Error code without translation. */
#ifndef LP_BASE_STATUS_H
#define LP_BASE_STATUS_H

#include "lp.h" /* lp_status and lp_strerror are the public ones */

/* What went wrong, in words for a person: the thing, the value, the remedy. */
enum { FAULT_TEXT = 512 };
typedef struct fault {
  lp_status status;
  char text[FAULT_TEXT];
} fault;

/* Fills `out` (may be NULL) printf-style, cutting what does not fit, and returns
 * `status`, so that a caller can write: return fault_set(f, LP_NOT_FOUND, "…"). */
lp_status fault_set(fault *out, lp_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
