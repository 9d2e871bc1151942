/* See stream.h. A stream that failed is never reported from within a call of its owner:
 * the failure is kept and the socket shut down, so that the poller comes back to it,
 * whatever had arrived is read first, and the end of the stream then brings the report.
 * (A socket that could not connect is shown as hung up by itself.) */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "net/stream.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "base/memory.h"

enum {
  READS_PER_EVENT = 8,      /* then the loop's other streams have their turn */
  COMPACT_BYTES = 64 << 10, /* sent bytes that may lie before the queued ones */
  KEEP_BYTES = 64 << 10,    /* an out buffer up to this size is kept when empty */
  KEEP_BUSY_BYTES = 1 << 20 /* the same while it is used to a quarter at least */
};

typedef enum state { CONNECTING, OPEN, CLOSED /* reported */, FREED } state;
typedef enum moment { NOT_YET, AT_CONNECT, AT_RECEIVE, AT_SEND, AT_WATCH, AT_END } moment;

struct stream {
  poller_watch *watch; /* owned; NULL once closed */
  stream_scratch *scratch;
  stream_events events;
  void *owner;
  char *peer; /* owned; address in words while connecting */
  buffer out;
  size_t sent; /* bytes of `out` the kernel has taken */
  size_t torn; /* so many at its beginning end a message whose beginning is not there any more */
  int fd;      /* owned */
  state state;
  bool spared;    /* from faults that are injected */
  int busy;       /* event handlers of this stream on the C stack: they free it, not stream_free */
  bool blocked;   /* the kernel takes no more for now: waiting for POLLER_WRITE */
  moment failure; /* why the stream is to be reported closed; the first one counts */
  int failure_errno;
};

static void on_event(void *owner, unsigned events);

static lp_status status_of_failure(const stream *self) {
  switch (self->failure_errno) {
    case EACCES:
    case EPERM: return LP_PERMISSION_DENIED;
    case ENOMEM:
    case ENOBUFS: return LP_RESOURCE_EXHAUSTED;
    default: return LP_UNAVAILABLE;
  }
}

static void describe_failure(const stream *self, char *out, size_t size) {
  const char *words = strerror(self->failure_errno);
  if (self->failure == AT_CONNECT && self->failure_errno == EAGAIN)
    words = "too many are waiting to be accepted there";
  if (self->failure == AT_CONNECT)
    snprintf(out, size, "cannot connect to %s: %s", self->peer, words);
  else if (self->failure == AT_END || self->failure_errno == EPIPE)
    snprintf(out, size, "connection closed by peer");
  else if (self->failure_errno == ECONNRESET)
    snprintf(out, size, "connection reset by peer");
  else
    snprintf(out, size, "connection failed while %s: %s",
             self->failure == AT_SEND      ? "sending"
             : self->failure == AT_RECEIVE ? "receiving"
                                           : "waiting",
             words);
}

static void keep_failure(stream *self, moment when, int error) {
  if (self->failure) return;
  self->failure = when;
  self->failure_errno = error;
}

/* --- writing --- */

static void watch_for(stream *self, bool blocked) {
  self->blocked = blocked;
  poller_watch_set(self->watch, blocked ? POLLER_READ | POLLER_WRITE : POLLER_READ);
}

/* Empties the out buffer and returns its memory unless it will soon be used again. */
static void out_clear(stream *self) {
  size_t used = self->out.length, capacity = self->out.capacity;
  self->sent = self->torn = self->out.length = 0;
  if (capacity > KEEP_BUSY_BYTES || (capacity > KEEP_BYTES && used < capacity / 4))
    buffer_fini(&self->out);
}

/* May bytes be moved as usual? What is injected is told as the kernel would: fewer bytes, or an
 * error in errno. */
static bool moves(const stream *self, fault_point point, size_t *size) {
  fault_kind injected = self->spared ? INJECT_NOTHING : fault_point_pass(point);
  if (injected == INJECT_SHORT) *size = fault_point_cut(point, *size);
  errno = injected == INJECT_RESET ? ECONNRESET : EAGAIN;
  return injected != INJECT_RESET && injected != INJECT_DELAY;
}

static ssize_t send_rest(const stream *self) {
  size_t size = self->out.length - self->sent;
  ssize_t count;
  if (!moves(self, FAULT_STREAM_WRITE, &size)) return -1;
  do {
    count = send(self->fd, self->out.data + self->sent, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  return count;
}

static void send_failed(stream *self, int error) {
  keep_failure(self, AT_SEND, error);
  shutdown(self->fd, SHUT_RDWR);
  watch_for(self, false);
}

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

static void forget_sent(stream *self) {
  size_t torn = smaller(self->torn, self->sent), bytes = self->sent - torn;
  if (bytes && self->events.on_forget)
    bytes = self->events.on_forget(self->owner, self->out.data + torn, bytes);
  bytes += torn;
  if (bytes) buffer_consume(&self->out, bytes);
  self->sent -= bytes;
  self->torn -= torn;
}

/* After a send: the queue is emptied, or the stream waits. */
static void after_send(stream *self) {
  if (self->sent == self->out.length) {
    out_clear(self);
    return;
  }
  if (self->sent >= COMPACT_BYTES && self->sent >= self->out.length / 2) forget_sent(self);
  if (!self->blocked) watch_for(self, true);
}

static bool send_was_refused(ssize_t count) {
  return count < 0 && errno != EAGAIN && errno != EWOULDBLOCK;
}

/* One send. Afterwards the queue is empty, or the stream blocked, or a failure kept. */
static void write_some(stream *self) {
  ssize_t count = send_rest(self);
  if (send_was_refused(count)) {
    send_failed(self, errno);
    return;
  }
  if (count > 0) self->sent += (size_t)count;
  after_send(self);
}

/* ---- bytes that are sent from where they are ---- */

enum { PARTS = 3 /* what is before them, they, and what is behind */ };

/* Shortens the parts to `size` bytes together. */
static void clip(struct iovec parts[PARTS], size_t size) {
  for (int i = 0; i < PARTS; i++) {
    parts[i].iov_len = smaller(parts[i].iov_len, size);
    size -= parts[i].iov_len;
  }
}

static ssize_t send_around(const stream *self, const hole *hole) {
  uint8_t *data = self->out.data;
  struct iovec parts[PARTS] = {{data + self->sent, hole->at - self->sent},
                               {(void *)hole->bytes, hole->length},
                               {data + hole->at, self->out.length - hole->at}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = PARTS};
  size_t size = self->out.length - self->sent + hole->length;
  ssize_t count;
  if (!moves(self, FAULT_STREAM_WRITE, &size)) return -1;
  clip(parts, size);
  do {
    count = sendmsg(self->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  return count;
}

/* Copies in what the socket did not take. If it took some of it, then also all that was before:
 * nothing is left of the beginning of that message. */
static void keep_rest(stream *self, const hole *left, size_t taken) {
  size_t before = left->at - self->sent;
  if (taken < before || !taken) {
    buffer_fill(&self->out, left);
    self->sent += taken;
    return;
  }
  size_t done = smaller(taken - before, left->length);
  const hole rest = {left->bytes + done, left->length - done, 0};
  buffer_consume(&self->out, left->at + (taken - before - done));
  buffer_fill(&self->out, &rest);
  self->sent = 0;
  self->torn = self->out.length;
}

void stream_flush_around(stream *self, const hole *hole) {
  ssize_t count = send_around(self, hole);
  int error = send_was_refused(count) ? errno : 0;
  keep_rest(self, hole, count > 0 ? (size_t)count : 0);
  if (error)
    send_failed(self, error);
  else
    after_send(self);
}

static void on_writable(stream *self) {
  if (stream_queued(self)) write_some(self);
  if (self->failure || stream_queued(self)) return;
  watch_for(self, false);
  if (self->events.on_drained) self->events.on_drained(self->owner);
}

/* --- reading --- */

/* Tells the owner of the failure that was kept, or else of this one. */
static void report_close(stream *self, moment when, int error) {
  char why[ADDRESS_NAME + 128];
  keep_failure(self, when, error);
  describe_failure(self, why, sizeof why);
  self->state = CLOSED;
  self->blocked = false;
  poller_watch_free(self->watch);
  self->watch = NULL;
  self->events.on_close(self->owner, status_of_failure(self), why);
}

static ssize_t receive(const stream *self, uint8_t *place, size_t size) {
  ssize_t count;
  if (!moves(self, FAULT_STREAM_READ, &size)) return -1;
  do {
    count = recv(self->fd, place, size, MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  return count;
}

static void read_ended(stream *self, ssize_t count) {
  if (count == 0)
    report_close(self, AT_END, 0);
  else if (errno != EAGAIN && errno != EWOULDBLOCK)
    report_close(self, AT_RECEIVE, errno);
}

/* One read. True when it filled its place, so that more may be waiting. */
static bool read_some(stream *self) {
  size_t size = 0;
  uint8_t *place = self->events.on_space ? self->events.on_space(self->owner, &size) : NULL;
  if (self->state != OPEN) return false;
  bool offered = place && size;
  if (!offered) place = self->scratch->data, size = self->scratch->size;
  ssize_t count = receive(self, place, size);
  if (count <= 0)
    read_ended(self, count);
  else if (offered)
    self->events.on_stored(self->owner, (size_t)count);
  else
    self->events.on_data(self->owner, place, (size_t)count);
  return count > 0 && (size_t)count == size;
}

static void on_readable(stream *self) {
  for (int reads = 0; reads < READS_PER_EVENT; reads++)
    if (self->state != OPEN || !read_some(self)) return;
}

/* The poller gave up on the descriptor: what is there now is the last that is read. */
static void on_unwatched(stream *self) {
  while (self->state == OPEN && read_some(self)) continue;
  if (self->state <= OPEN) report_close(self, AT_WATCH, ENOMEM);
}

/* --- opening --- */

static void on_connected(stream *self) {
  self->state = OPEN;
  mem_free(self->peer);
  self->peer = NULL;
  watch_for(self, false);
  if (self->events.on_open) self->events.on_open(self->owner);
  if (self->state == OPEN) stream_flush(self);
}

static void on_connect_event(stream *self) {
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(self->fd, SOL_SOCKET, SO_ERROR, &error, &length)) error = errno;
  if (self->failure || error)
    report_close(self, AT_CONNECT, error);
  else
    on_connected(self);
}

static void release(stream *self) {
  if (!self->busy) mem_free(self);
}

static void on_event(void *owner, unsigned events) {
  stream *self = owner;
  self->busy++;
  if (events & POLLER_FAILED) {
    on_unwatched(self);
  } else if (self->state == CONNECTING) {
    on_connect_event(self);
  } else {
    if (events & POLLER_WRITE && self->blocked) on_writable(self);
    if (events & POLLER_READ && self->state == OPEN) on_readable(self);
  }
  self->busy--;
  if (self->state == FREED) release(self);
}

/* Failing to set any of these costs speed only. A Unix socket has no delay to turn off. */
static void tune_socket(int fd, size_t buffer_bytes) {
  int yes = 1, bytes = buffer_bytes < INT_MAX / 2 ? (int)buffer_bytes : INT_MAX / 2;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (!bytes) return;
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

static stream *stream_new(poller *loop, int fd, state begin, const stream_events *events,
                          void *owner) {
  stream *self = mem_new(sizeof *self);
  if (!self) return NULL;
  unsigned first = begin == OPEN ? POLLER_READ : POLLER_WRITE;
  *self = (stream){.fd = fd, .state = begin, .events = *events, .owner = owner};
  self->watch = poller_watch_new(loop, fd, first, on_event, self);
  if (self->watch) return self;
  mem_free(self);
  return NULL;
}

stream *stream_open(poller *loop, stream_scratch *scratch, int fd, size_t buffer_bytes,
                    const stream_events *events, void *owner) {
  stream *self = stream_new(loop, fd, OPEN, events, owner);
  if (!self) {
    close(fd);
    return NULL;
  }
  self->scratch = scratch;
  tune_socket(fd, buffer_bytes);
  return self;
}

static bool keep_peer(stream *self, const address *to) {
  char text[ADDRESS_NAME + 16];
  address_format(to, text, sizeof text);
  self->peer = mem_strdup(text);
  return self->peer != NULL;
}

static int open_socket(sa_family_t family, fault *why) {
  int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) fault_set(why, LP_RESOURCE_EXHAUSTED, "cannot make a socket: %s", strerror(errno));
  return fd;
}

stream *stream_connect(poller *loop, stream_scratch *scratch, const address *to,
                       size_t buffer_bytes, const stream_events *events, void *owner, fault *why) {
  struct sockaddr_storage where;
  socklen_t length;
  if (address_resolve(to, &where, &length, why)) return NULL;
  int fd = open_socket(where.ss_family, why);
  if (fd < 0) return NULL;
  tune_socket(fd, buffer_bytes);
  int error = connect(fd, (struct sockaddr *)&where, length) ? errno : 0;
  stream *self = stream_new(loop, fd, CONNECTING, events, owner);
  if (!self) close(fd);
  if (!self || !keep_peer(self, to)) {
    fault_set(why, LP_RESOURCE_EXHAUSTED, "no memory for a connection");
    stream_free(self);
    return NULL;
  }
  self->scratch = scratch;
  if (error && error != EINPROGRESS && error != EINTR) keep_failure(self, AT_CONNECT, error);
  return self;
}

/* --- for the owner --- */

buffer *stream_out(stream *self) {
  return &self->out;
}

bool stream_is_clear(const stream *self) {
  return self->state == OPEN && !self->failure && !self->blocked;
}

void stream_flush(stream *self) {
  if (stream_is_clear(self) && stream_queued(self)) write_some(self);
}

const uint8_t *stream_unsent(const stream *self, size_t *length, size_t *sent) {
  *length = self->out.length - self->torn;
  *sent = self->sent - smaller(self->torn, self->sent);
  return self->out.data + self->torn;
}

void stream_spare(stream *self) {
  self->spared = true;
}

size_t stream_queued(const stream *self) {
  return self->failure ? 0 : self->out.length - self->sent;
}

int stream_fd(const stream *self) {
  return self->fd;
}

void stream_free(stream *self) {
  if (!self) return;
  if (self->state == OPEN && !self->failure && stream_queued(self)) send_rest(self);
  self->state = FREED;
  poller_watch_free(self->watch);
  self->watch = NULL;
  close(self->fd);
  buffer_fini(&self->out);
  mem_free(self->peer);
  release(self);
}
