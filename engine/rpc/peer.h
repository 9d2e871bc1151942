/* A peer: one end of a conversation. It owns the link, finds out where its target is, splits
 * what comes into frames, and knows how much credit is left; which calls wait is pending.h.
 * Requests go on to server.h, answers to client.h; neither knows what the link is made of. */
#ifndef LP_RPC_PEER_H
#define LP_RPC_PEER_H

#include "base/fault_point.h"
#include "base/hot.h"
#include "net/link.h"
#include "rpc/meter.h"
#include "rpc/rpc.h"
#include "wire/frame_small.h"

typedef struct peer peer;
typedef struct pending pending;
struct connecting;

/* So many frames make a piece that is worth to be handed over to another loop before the turn
 * ends: it begins with them while this one goes on. */
enum { PEER_PIECE = 16 };

typedef enum peer_state {
  PEER_IDLE,       /* no link; the next call connects */
  PEER_CONNECTING, /* frames gather in `connecting`, in the next two states as well */
  PEER_HELLO,      /* link up, greeting not answered yet */
  PEER_WAITING,    /* a try has failed; for the next one */
  PEER_OPEN,
  PEER_CLOSED /* for good */
} peer_state;

/* What the last try to get a link came to. */
typedef enum peer_trouble {
  PEER_WELL,
  PEER_FAILED, /* nobody answered; another time it may be otherwise */
  PEER_GONE    /* the target has ended and will not be back */
} peer_trouble;

struct peer {
  list link;           /* rpc->peers */
  hash_link by_target; /* rpc->by_target, when it has one */
  rpc *rpc;
  int references;
  peer_state state;
  peer_trouble trouble;
  uint32_t session; /* counts links this peer has had */
  struct link wire;
  frame_splitter splitter;
  flushable flushable;
  uint32_t written;              /* frames since it was flushed or handed over */
  bool accepted;                 /* the other side dialled */
  bool control;                  /* reserved methods are answered here, see control.h */
  bool foreign;                  /* speaks bare MessagePack-RPC */
  bool unhealthy;                /* says the node there */
  bool broken;                   /* memory was out for something the other end relies on */
  struct connecting *connecting; /* NULL: idle, open or closed */
  size_t frame_start;            /* of a frame being written, + 1; 0: none */
  char *target;                  /* key of a node, or address; NULL: accepted */
  char *name;                    /* of the node at the other end, for people */
  pending **slots;               /* by id & (size - 1) */
  uint32_t slot_count, pending_count, next_id;
  terms granted;        /* what the other end takes */
  int64_t window;       /* requests and notifications it takes now; below 0: it learnt so late */
  int64_t window_bytes; /* the same in bytes; below 0 after a large one */
  uint32_t consumed;    /* notifications from there handled since the last credit */
  size_t consumed_bytes;
  link_meter made;   /* calls from here to there */
  link_meter served; /* and from there to here */
  int64_t active_at; /* when something came from there last */
  int64_t sent_at;   /* and when that was sent, see peer_sent_at; 0: nobody asked yet */
  uint32_t handling; /* calls from there that are held or handled here */
  uint32_t late;     /* calls given up that have not been answered yet */
  size_t late_bytes; /* of those */
  list waiters;      /* tasks waiting for credit, by task.link */
  lp_status end_status;
  char *end_text; /* why it is not open; NULL: never was */
  char *farewell; /* how the node there ended, in its own words, until it greets again */
  int on_close;   /* registry reference of a Lua function, or LUA_NOREF */
  int asking;     /* connectors under way */
  bool again;     /* its address did not answer, and the connector was asked once more */
#ifdef LP_FAULTS
  list late_frames; /* see peer_faults.h */
#endif
};

/* The credit of a fresh link in calls; less in specs of what happens when it is used up. */
static inline uint32_t peer_window(uint32_t calls) {
  uint32_t wanted = fault_point_setting(FAULT_WINDOW, calls);
  return wanted < 1 ? 1 : wanted < calls ? wanted : calls;
}

/* The peer for `target` (a node's key or an address), shared by all clients of this node;
 * a reference for the caller. NULL: memory. */
peer *peer_get(rpc *rpc, const char *target, const char *name);
peer *peer_ref(peer *peer);
void peer_unref(peer *peer); /* accepts NULL */
/* A new one without a link; `target` NULL: the other side dialled. As peer_get. */
peer *peer_new(rpc *rpc, const char *target, const char *name);

/* ---- connecting: peer_connect.c --------------------------------------------- */

/* Takes over an end of a pipe or a connected descriptor whose other side dialled. */
void peer_accept_pipe(rpc *rpc, pipe_end *end, const char *name, terms terms);
void peer_accept_fd(rpc *rpc, int fd);
/* Begins to connect when idle. `hasty`: the call does not wait for a server that is not there
 * yet, or does not answer at present (asked also of an open link). False: unavailable, fault
 * says why. */
bool peer_connect(peer *peer, bool hasty, fault *fault);
/* Makes one try, whose outcome may come at once or later. */
void peer_try(peer *peer);
/* Connects to an address (the connector's answer) if that is still wanted. */
void peer_dial(peer *peer, const char *address);
/* A try failed: another follows, unless there is no sense in that by `status`. */
void peer_missed(peer *peer, lp_status status, const char *why);
/* "idle", "connecting", "ready", "transient_failure" or "shutdown". */
const char *peer_state_name(peer *peer);
/* Does it reach an address and not a node by its key? */
bool peer_is_address(const peer *peer);
/* Why there is no link, as callers are told: "failed to connect to …". */
void peer_unreached(const peer *peer, const char *why, char *out, size_t size);
/* What a peer does with what its link brings; defined in peer.c. */
extern const stream_events peer_events;

/* ---- the link --------------------------------------------------------------- */

/* Forgets a frame that came in part: another link begins. */
void peer_reset_splitter(peer *peer);
/* Closes the link; a peer with a target may be used again. Fails every pending call, but those
 * of an open link that broke of which nothing was sent: these go out on the next one. */
void peer_down(peer *peer, lp_status status, const char *text);
/* The other end said what it takes. */
void peer_grant(peer *peer, terms terms);
/* Fails one call. */
void peer_fail_call(peer *peer, pending *call, lp_status status, const char *text);
/* Keeps the text of why there is no link. */
void peer_set_end(peer *peer, lp_status status, const char *text);
/* Credit has come back: as many waiting callers as it covers try again. */
void peer_credit(peer *peer, uint32_t count, size_t bytes);
/* The same of one call of `bytes` whose answer found it waiting: the link has not gone down since
 * it was written, so that this is no more than is missing. */
void peer_answered(peer *peer, size_t bytes);
/* When the request or notification that came was sent, or a little later: its time counts from
 * then. Over a socket that is when it was read. */
int64_t peer_sent_at(peer *peer);
/* All who wait for credit look again. */
void peer_wake(peer *peer);
/* Memory was out for an answer or for credit: rather than have the other end wait for ever,
 * the link is taken down at the end of the turn. */
void peer_break(peer *peer);

/* Begins a frame; NULL when memory is out, or from within a frame (a pack function
 * that calls). peer_write_end or peer_write_undo follows. */
buffer *peer_write_begin(peer *peer, size_t *start);
void peer_write_end(peer *peer, size_t start);
/* As peer_write_end when nothing of the node's has run since peer_write_begin gave `out`. */
void peer_write_sent(peer *peer, buffer *out, size_t start);
void peer_write_undo(peer *peer, size_t start);

/* May a long string of the frame be left out of `out` (codec_write_around), to be sent at once from
 * where Lua keeps it? In memory it has to be copied anyway. */
bool peer_sends_around(const peer *peer);
/* As peer_write_end for a frame of which `hole` was left out, or nothing. False: memory is out for
 * what the socket may not take, and nothing was sent. */
bool peer_write_around(peer *peer, size_t start, const hole *hole);

/* Gives what was written to a loop of this process, which is not woken yet. */
void peer_hand_over(peer *peer);
/* A frame more was written: it leaves at the end of the turn, or with PEER_PIECE of them. */
HOT_INLINE void peer_written(peer *peer) {
  loop_dirty(peer->rpc->node->loop, &peer->flushable);
  if (++peer->written >= PEER_PIECE) peer_hand_over(peer);
}

/* The short way on an open link to another engine: the buffer with room for `bytes` more, to be
 * written by frame_small.h up to `end` before anything else happens. NULL: take the long one. */
HOT_INLINE buffer *peer_small_begin(peer *peer, size_t bytes) {
  if (UNLIKELY(peer->frame_start || peer->foreign || peer->state != PEER_OPEN)) return NULL;
  buffer *out = link_out(&peer->wire);
  return LIKELY(out && buffer_reserve(out, bytes)) ? out : NULL;
}
HOT_INLINE void peer_small_end(peer *peer, buffer *out, const uint8_t *end) {
  frame_small_end(out->data + out->length, end);
  peer->made.bytes += (size_t)(end - out->data) - out->length;
  out->length = (size_t)(end - out->data);
  peer_written(peer);
}

#endif
