/* Calls and notifications that have been written and have no link yet, in the order written.
 * One that is given up is taken out again, so that what nobody waits for any more neither
 * takes up memory while a server is away nor is run when it comes. Knows frames only, no
 * peers. */
#ifndef LP_RPC_EARLY_H
#define LP_RPC_EARLY_H

#include "base/buffer.h"
#include "base/status.h"

typedef struct early_frame {
  size_t start, length; /* in early.bytes, with its prefix */
  uint32_t id;          /* of a request */
  bool notify;          /* a notification: no id */
  bool waits;           /* for a server that is not there yet (wait_for_ready) */
  bool dead;            /* was taken out */
} early_frame;

typedef struct early {
  buffer bytes; /* frames are appended here, then early_add tells of them */
  early_frame *frames;
  size_t count, size; /* entries in use, dead ones included; allocated */
  size_t live;        /* entries that are not dead */
} early;

void early_fini(early *self);
/* The frame from `start` to the end of the bytes is complete. False: memory is out; the caller
 * takes the bytes back. */
bool early_add(early *self, size_t start, uint32_t id, bool notify, bool waits);
/* Takes the request `id` out; the bytes it had, 0: it is not here. */
size_t early_drop(early *self, uint32_t id);
bool early_has(const early *self, uint32_t id);
/* Takes the frame at `index` out. */
void early_drop_at(early *self, size_t index);
/* Gives the room back that is behind what was taken out, when it is worth it. Not while a frame
 * is being written. */
void early_tidy(early *self);

/* What is left of a request's time, ns after now; only asked for requests that carry one. */
typedef int64_t (*early_left)(void *owner, uint32_t id);
/* Appends what is left of the frames to `out`, their times brought up to date, and is empty
 * afterwards. False: memory is out (nothing can be relied on then). */
bool early_send(early *self, buffer *out, early_left left, void *owner);

/* The bytes of a link's queue that was never sent, as far as they are whole: `data` begins with
 * a frame, of it `sent` bytes are gone. Calls `keep` with each request or notification that
 * lies behind these; the ones it says yes to are added. False: memory is out. */
typedef bool (*early_keep)(void *owner, uint32_t id, bool notify, const char *method,
                           size_t method_length, bool *waits);
bool early_take(early *self, const uint8_t *data, size_t length, size_t sent, early_keep keep,
                void *owner);

/* The last place up to `sent` where a frame begins in bytes that begin with one. */
size_t early_boundary(const uint8_t *data, size_t sent);

#endif
