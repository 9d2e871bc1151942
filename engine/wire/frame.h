/* RPC frames: MessagePack-RPC messages, found in a stream of bytes and taken apart.
 * A state machine without input or output: it is fed bytes and hands out frames.
 *
 *   request       [0, id, method, params]         or with a fifth element, meta
 *   response      [1, id, error, result]
 *   notification  [2, method, params]             or with a fourth element, meta
 *
 * Before the hello frames stand bare, and the splitter finds their end with a
 * resumable scan (never from the start again). After it each frame is wrapped in one
 * ext 32 value of type CODEC_EXT_FRAME (c9, four bytes of length, the type): then
 * a frame that is too large is skipped and the link lives. */
#ifndef LP_WIRE_FRAME_H
#define LP_WIRE_FRAME_H

#include "base/buffer.h"
#include "base/status.h"

typedef enum frame_kind { FRAME_REQUEST = 0, FRAME_RESPONSE = 1, FRAME_NOTIFY = 2 } frame_kind;

/* A frame taken apart; every pointer leads into the bytes it was parsed from. */
typedef struct frame {
  frame_kind kind;
  uint32_t id;        /* request, response */
  const char *method; /* request, notification; bytes, not terminated */
  size_t method_length;
  const uint8_t *body; /* params, or the result of a response; one complete value */
  size_t body_length;
  const uint8_t *error; /* response: the error value, or NULL when it is nil */
  size_t error_length;
  const uint8_t *meta; /* the additional last element, or NULL */
  size_t meta_length;
  bool timed; /* frame_open: the meta element is not taken off yet, it is what follows the body */
} frame;

/* Takes exactly one frame of `length` bytes apart. Checks structure down to every
 * length (a frame that parses can be scanned safely), not the values themselves. */
lp_status frame_parse(const uint8_t *data, size_t length, frame *out, fault *fault);

/* The same without a look into the body of frames as this engine writes them, which is then all
 * that follows in the frame: whoever decodes it sees whether it is one complete value. Of one with
 * a time (`timed`) the body goes on with the meta element until frame_take_time. */
lp_status frame_open(const uint8_t *data, size_t length, frame *out, fault *fault);

/* Of a frame that frame_open took apart: the meta element, if it is `timed`, off the body. */
lp_status frame_take_time(frame *frame, fault *fault);

/* Is the body of a frame that frame_open took apart one complete value? */
bool frame_body_whole(const frame *frame);

/* Kind and, except for a notification, id of the frame whose first bytes these are;
 * false when they do not tell. For replies to frames too large to be taken in. */
bool frame_peek(const uint8_t *head, size_t length, frame_kind *kind, uint32_t *id);

/* ---- writing ---------------------------------------------------------------- */

enum { FRAME_PREFIX = 6 }; /* bytes of the ext 32 header */

/* Begins a frame at the end of `out` (room for the prefix when `wrapped`) and writes
 * its header; the caller then appends body and, when announced by `with_meta`, the
 * meta value, and calls frame_end with the offset that came back in `start`. On
 * failure (memory) false, and `out` is as before. */
bool frame_begin_request(buffer *out, bool wrapped, uint32_t id, const char *method,
                         size_t method_length, bool with_meta, size_t *start);
bool frame_begin_notify(buffer *out, bool wrapped, const char *method, size_t method_length,
                        bool with_meta, size_t *start);
/* The header up to and including the error: nil when `failed` is false (the result
 * follows), else nothing: the error value follows and then frame_put_nil. */
bool frame_begin_response(buffer *out, bool wrapped, uint32_t id, bool failed, size_t *start);
bool frame_put_nil(buffer *out);
/* Patches the length of the frame that began at `start`. */
void frame_end(buffer *out, bool wrapped, size_t start);
/* The same for a wrapped frame of which so many bytes were left out of `out` (struct hole). */
void frame_end_around(buffer *out, size_t start, size_t left_out);

/* Small writers for bodies made in C: one MessagePack value each, shortest form. */
bool frame_put_array(buffer *out, uint32_t count);
bool frame_put_map(buffer *out, uint32_t count);
bool frame_put_string(buffer *out, const char *text, size_t length);
bool frame_put_integer(buffer *out, int64_t value);
bool frame_put_boolean(buffer *out, bool value);

/* ---- splitting -------------------------------------------------------------- */

/* Where one frame ends and the next begins, in bytes that come in any pieces. */
typedef struct frame_splitter {
  bool wrapped;         /* ext 32 frames only; set after the hello */
  size_t limit_bytes;   /* of one frame */
  buffer partial;       /* a frame of which not all bytes are here yet */
  size_t scanned;       /* bytes of `partial` the scanner has passed (bare frames) */
  uint64_t skip;        /* bytes of an oversize frame still to be thrown away */
  uint64_t open;        /* values the scanner still expects (bare frames) */
  uint64_t needed;      /* where the frame in `partial` ends, 0: not known yet */
  size_t lead;          /* and where it begins: so that the string that follows is aligned */
  size_t string_at;     /* a long string of that frame (adopted.h), its offset in `partial` */
  size_t string_length; /* and its bytes, of which not all need be here yet; 0: there is none */
} frame_splitter;

void frame_splitter_init(frame_splitter *splitter, bool wrapped, size_t limit_bytes);
void frame_splitter_fini(frame_splitter *splitter);

/* Called with each complete frame's bytes (prefix removed), valid until it returns;
 * false stops the feeding (the rest of the bytes is dropped; the link is going down and
 * the splitter fit for nothing but frame_splitter_fini).
 * It may set splitter->wrapped: bytes after this frame are split by the new rule. */
typedef bool (*frame_sink)(void *owner, const uint8_t *data, size_t length);
/* Called when a frame over the limit begins; it is skipped (wrapped frames only). Its
 * first bytes (64, or all if it has fewer) are given for frame_peek, so that a reply can
 * name the request. `oversize` may be NULL. */
typedef void (*frame_oversize)(void *owner, uint64_t size, const uint8_t *head, size_t length);

/* The short way for bytes in which many frames came: may whole wrapped frames be taken from their
 * beginning by frame_next? */
static inline bool frame_splitter_between(const frame_splitter *splitter) {
  return splitter->wrapped && !splitter->partial.length && !splitter->skip;
}
/* The length of the wrapped frame that lies whole at `data`, its bytes from FRAME_PREFIX on, which
 * is taken apart as by frame_open; 0: there is none, or it is over `limit`, or not in a form this
 * engine writes: frame_split's business. */
size_t frame_next(const uint8_t *data, size_t length, size_t limit, frame *out);

/* Feeds bytes. The splitter must outlive the call, also when a sink brings the link
 * down. A fault (bytes that are no frame, a bare frame over the limit) is
 * final for the stream. Frames that lie whole in `data` are handed out in place. */
lp_status frame_split(frame_splitter *splitter, const uint8_t *data, size_t length, frame_sink sink,
                      frame_oversize oversize, void *owner, fault *fault);

/* Room to read the rest of a large frame straight into, or NULL when the next bytes
 * should go to a scratch buffer. After storing n bytes there call frame_split_stored. */
uint8_t *frame_splitter_space(frame_splitter *splitter, size_t *size);
lp_status frame_split_stored(frame_splitter *splitter, size_t length, frame_sink sink,
                             frame_oversize oversize, void *owner, fault *fault);

#endif
