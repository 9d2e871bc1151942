/* One descriptor that is printed to without waiting for its reader.
 *
 * A pipe or terminal is opened a second time, so that O_NONBLOCK is set for us alone and
 * not for everybody who shares the descriptor. Where that is not possible (no /proc, a
 * terminal that is neither ours nor the controlling one) it is written PIPE_BUF bytes at
 * a time when the poller says so. What cannot be polled (a plain file) is written at
 * once. SIGPIPE is never raised.
 *
 * When the reader goes away all later output is dropped; when a write fails for another
 * reason (a full disk) what is queued is dropped and later output tried again. */
#ifndef LP_PROCESS_OUTPUT_H
#define LP_PROCESS_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "net/poller.h"

typedef struct output {
  int fd;              /* -1: closed, or its reader is gone */
  bool owned;          /* `fd` is our own opening, without waiting */
  unsigned kind;       /* S_IFMT part of the descriptor's mode */
  poller_watch *watch; /* NULL: written at once */
  buffer queue;        /* whole lines, the first `sent` bytes of which are written */
  size_t sent;
  bool open_line; /* what was queued last does not end a line */
  char last;      /* the last byte written, to see whether a drop tore a line */
  size_t lost;    /* bytes dropped */
  int cause;      /* errno of the first drop; 0: none */
  void (*on_written)(void *owner);
  void *owner;
} output;

/* Both are open on one file (same device and inode) or on one terminal. */
bool output_is_one_file(int a, int b);

/* `fd` is borrowed. `on_written` is called by the poller each time something was written
 * or dropped. */
void output_init(output *out, poller *loop, int fd, void (*on_written)(void *owner), void *owner);
/* Drops what is queued. */
void output_fini(output *out);

/* Room for `bytes` more at the end of `queue`; NULL: memory is out. Call output_send
 * when they are stored. A line torn by a drop is ended first. */
buffer *output_reserve(output *out, size_t bytes);
void output_send(output *out);
/* Writes one piece now; only when the descriptor was seen to be writable. */
void output_write(output *out);
void output_drop(output *out, size_t bytes, int cause); /* counts bytes never queued */

static inline size_t output_queued(const output *out) {
  return out->queue.length - out->sent;
}

#endif
