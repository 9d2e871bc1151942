/* A link is a stream or one end of a pipe; what is above does not know which. */
#ifndef LP_NET_LINK_H
#define LP_NET_LINK_H

#include "net/pipe.h"
#include "net/stream.h"

/* No typedef: the name belongs to unistd.h. */
struct link {
  stream *stream;
  pipe_end *pipe; /* exactly one is set while the link is open */
};

static inline bool link_is_open(const struct link *link) {
  return link->stream || link->pipe;
}

/* The buffer to append to; NULL when memory is out. Only on an open link. */
static inline buffer *link_out(struct link *link) {
  return link->stream ? stream_out(link->stream) : pipe_out(link->pipe);
}

/* False: the other end is gone. */
static inline bool link_flush(struct link *link) {
  if (link->pipe) return pipe_flush(link->pipe);
  if (link->stream) stream_flush(link->stream);
  return true;
}

/* Would it send bytes from where they are at once? Then link_flush_around does. */
static inline bool link_is_clear(const struct link *link) {
  return link->stream && stream_is_clear(link->stream);
}

/* As stream_flush_around. */
static inline void link_flush_around(struct link *link, const hole *hole) {
  stream_flush_around(link->stream, hole);
}

/* Bytes appended that have not left yet. */
static inline size_t link_queued(const struct link *link) {
  return link->stream ? stream_queued(link->stream) : link->pipe ? pipe_queued(link->pipe) : 0;
}

/* Has no faults injected here (fault_point.h). */
static inline void link_spare(struct link *link) {
  if (link->stream) stream_spare(link->stream);
  if (link->pipe) pipe_spare(link->pipe);
}

/* The bytes appended and not forgotten: `sent` of them have left. On an open link, also on one
 * that has failed. */
static inline const uint8_t *link_unsent(const struct link *link, size_t *length, size_t *sent) {
  *sent = 0;
  return link->stream ? stream_unsent(link->stream, length, sent) : pipe_unsent(link->pipe, length);
}

static inline void link_close(struct link *link) {
  stream_free(link->stream);
  pipe_free(link->pipe);
  link->stream = NULL;
  link->pipe = NULL;
}

#endif
