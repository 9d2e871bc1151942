/* A connected stream socket (Unix or TCP) on a poller: gathers what is to be sent,
 * writes it in one call, reports what comes in. Knows bytes only, no frames.
 *
 * A stream is used by its poller's thread alone. Callbacks may close and free the
 * stream they are called for; on_data must have copied its bytes before it runs
 * poller_wait, which reads into the same scratch. Sends use MSG_NOSIGNAL; every descriptor is
 * CLOEXEC and non-blocking from its creation. */
#ifndef LP_NET_STREAM_H
#define LP_NET_STREAM_H

#include <stddef.h>

#include "base/buffer.h"
#include "base/status.h"
#include "net/address.h"
#include "net/poller.h"

typedef struct stream stream;

typedef struct stream_events {
  /* A stream made by stream_connect is up. May be NULL. */
  void (*on_open)(void *owner);
  /* Offers room to read into, for bytes that belong to a large frame: NULL, or the
   * place and its size; what was read is then reported by on_stored. May be NULL. */
  uint8_t *(*on_space)(void *owner, size_t *size);
  void (*on_stored)(void *owner, size_t length);
  /* Bytes came; they are valid until it returns. */
  void (*on_data)(void *owner, const uint8_t *data, size_t length);
  /* The peer ended the stream, or it failed (also: could not be connected): `why` says
   * how in words. All bytes that had come were reported before. The stream still
   * has to be freed, which may be done right here. Called once at most. */
  void (*on_close)(void *owner, lp_status status, const char *why);
  /* Everything queued went out after it had not all at once. May be NULL. */
  void (*on_drained)(void *owner);
  /* `sent` of the bytes at `data`, which begin where a message does, have been sent and are to
   * be forgotten: how many of them may be, so that this stays so. May be NULL: all. */
  size_t (*on_forget)(void *owner, const uint8_t *data, size_t sent);
} stream_events;

/* One read buffer per thread, shared by its streams. */
typedef struct stream_scratch {
  uint8_t *data;
  size_t size;
} stream_scratch;

/* Takes over the connected descriptor `fd` (closed by stream_free, on failure at once).
 * Requests `buffer_bytes` of socket buffer each way when not 0. NULL: memory is out. */
stream *stream_open(poller *poller, stream_scratch *scratch, int fd, size_t buffer_bytes,
                    const stream_events *events, void *owner);
/* Begins to connect (a Unix listener whose queue is full counts as failed: unavailable, to
 * be tried again by the owner); on_open or on_close follows from poller_wait, never from within
 * this call. NULL with `fault` when not even a socket could be made (descriptors,
 * memory, a path over 107 bytes, an inproc address). */
stream *stream_connect(poller *poller, stream_scratch *scratch, const address *address,
                       size_t buffer_bytes, const stream_events *events, void *owner, fault *fault);

/* The buffer to append to; call stream_flush afterwards. Bytes appended before the
 * stream is open wait for that. Append only: it may begin with bytes already sent, and
 * positions in it are void after stream_flush and poller_wait. */
buffer *stream_out(stream *stream);
/* Writes what it can now; the rest goes out as the socket takes it. Errors are reported
 * through on_close from poller_wait, never from within; what is queued then stays for
 * stream_unsent. */
void stream_flush(stream *stream);
/* Would stream_flush write at once? */
bool stream_is_clear(const stream *stream);
/* As stream_flush, with the bytes of `hole` in their place: what the socket takes of them goes out
 * from where they are, the rest is copied to the others that wait. The buffer has room for all of
 * them, the stream is clear, and they are the only ones left out. */
void stream_flush_around(stream *stream, const hole *hole);
/* What was appended and not forgotten yet: the bytes and their number; the first `sent` of them
 * went out. The end of a message that began to go out from elsewhere is left away. For the owner
 * of a stream that has failed. */
const uint8_t *stream_unsent(const stream *stream, size_t *length, size_t *sent);
/* Bytes appended and not yet taken by the kernel; 0 once the stream has failed. */
size_t stream_queued(const stream *stream);
/* Descriptor, for tests and inspection. */
int stream_fd(const stream *stream);
/* Has no faults injected here (fault_point.h). */
void stream_spare(stream *stream);
/* Closes the descriptor and frees; unsent bytes are tried once more. Accepts NULL. */
void stream_free(stream *stream);

#endif
