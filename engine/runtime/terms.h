/* What a node takes from each of its callers. Told to a caller before it calls: in one process
 * through the directory, over a socket by the hello. */
#ifndef LP_RUNTIME_TERMS_H
#define LP_RUNTIME_TERMS_H

#include <stdbool.h>
#include <stdint.h>

enum {
  TERMS_CALLS = 1024,             /* default of edge_calls */
  TERMS_BYTES = 64 << 20,         /* default of edge_bytes */
  TERMS_MOST_CALLS = 1 << 20,     /* what an option, or the other end, may ask for */
  TERMS_ANSWER_BYTES = 512 << 20, /* default of answer_bytes */
  TERMS_PENDING_BYTES = 256 << 20 /* default of max_pending_bytes */
};
#define TERMS_MOST_BYTES ((int64_t)1 << 40)

typedef struct terms {
  uint32_t calls; /* requests and notifications under way; 1 or more */
  int64_t bytes;  /* their bytes; another may begin while any is left */
  bool fails;     /* beyond that a call fails; else it waits at the caller */
} terms;

#define TERMS_DEFAULT ((struct terms){.calls = TERMS_CALLS, .bytes = TERMS_BYTES})

#endif
