/* See output.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "process/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
  PIECE = 64 * 1024, /* the most that is written in one go without waiting */
  KEEP = 64 * 1024   /* a larger queue is given back when it is empty */
};

/* ---- opening ---------------------------------------------------------------- */

static bool is_one_terminal(int a, int b) {
  unsigned device_a, device_b;
  return ioctl(a, TIOCGDEV, &device_a) == 0 && ioctl(b, TIOCGDEV, &device_b) == 0 &&
         device_a == device_b;
}

bool output_is_one_file(int a, int b) {
  struct stat info_a, info_b;
  if (fstat(a, &info_a) != 0 || fstat(b, &info_b) != 0) return false;
  bool same = info_a.st_dev == info_b.st_dev && info_a.st_ino == info_b.st_ino;
  return same || is_one_terminal(a, b);
}

/* An opening of our own of what `fd` is, by way of `path`; -1 when it cannot be had. */
static int open_again(int fd, const char *path) {
  int own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (own < 0 || output_is_one_file(own, fd)) return own;
  close(own);
  return -1;
}

/* Pipes and terminals only. The terminal's own file may belong to another user (after
 * su); /dev/tty is everybody's. */
static int reopen(int fd, unsigned kind) {
  char path[32];
  if (kind != S_IFIFO && !isatty(fd)) return -1;
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  int own = open_again(fd, path);
  return own < 0 && kind != S_IFIFO ? open_again(fd, "/dev/tty") : own;
}

static bool is_writable(int fd) {
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}

static void on_writable(void *owner, unsigned events) {
  (void)events;
  output *out = owner;
  output_write(out);
  out->on_written(out->owner);
}

void output_init(output *out, poller *loop, int fd, void (*on_written)(void *owner), void *owner) {
  struct stat info;
  *out = (output){.fd = -1, .last = '\n', .on_written = on_written, .owner = owner};
  if (fd < 0 || !is_writable(fd) || fstat(fd, &info) != 0) return;
  out->kind = info.st_mode & S_IFMT;
  int own = reopen(fd, out->kind);
  out->owned = own >= 0;
  out->fd = out->owned ? own : fd;
  out->watch = poller_watch_new(loop, out->fd, 0, on_writable, out);
}

static void forget_descriptor(output *out) {
  poller_watch_free(out->watch);
  out->watch = NULL;
  if (out->owned) close(out->fd);
  out->owned = false;
  out->fd = -1;
}

void output_fini(output *out) {
  forget_descriptor(out);
  buffer_fini(&out->queue);
  out->sent = 0;
}

/* ---- writing ---------------------------------------------------------------- */

/* write to a pipe without SIGPIPE: blocked for this thread only, and taken back when
 * this write raised it. */
static ssize_t write_pipe(int fd, const void *bytes, size_t count) {
  static const struct timespec no_time;
  sigset_t broken, before, pending;
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &broken, &before);
  ssize_t wrote = write(fd, bytes, count);
  int error = errno;
  if (wrote < 0 && error == EPIPE && !sigismember(&pending, SIGPIPE))
    while (sigtimedwait(&broken, NULL, &no_time) < 0 && errno == EINTR) continue;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = error;
  return wrote;
}

static ssize_t write_piece(output *out) {
  const void *bytes = out->queue.data + out->sent;
  size_t count = output_queued(out);
  bool may_wait = out->watch && !out->owned && out->kind != S_IFSOCK;
  size_t most = may_wait ? PIPE_BUF : PIECE;
  if (count > most) count = most;
  if (out->kind == S_IFSOCK) return send(out->fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (out->kind == S_IFIFO) return write_pipe(out->fd, bytes, count);
  return write(out->fd, bytes, count);
}

static void empty_queue(output *out) {
  out->queue.length = out->sent = 0;
  if (out->queue.capacity > KEEP) buffer_fini(&out->queue);
}

void output_drop(output *out, size_t bytes, int cause) {
  out->lost += bytes;
  if (!out->cause) out->cause = cause;
}

static void fail(output *out, int error) {
  output_drop(out, output_queued(out), error);
  out->open_line = out->last != '\n'; /* torn */
  empty_queue(out);
  if (error == EPIPE || error == ECONNRESET || error == EBADF) forget_descriptor(out);
}

/* True when there may be more to write at once. */
static bool advance(output *out) {
  ssize_t wrote = write_piece(out);
  int error = errno;
  if (wrote > 0) {
    out->sent += (size_t)wrote;
    out->last = (char)out->queue.data[out->sent - 1];
    if (!output_queued(out)) empty_queue(out);
    return true;
  }
  if (wrote < 0 && error == EINTR) return true;
  if (wrote == 0 || (error == EAGAIN && out->watch)) return false;
  fail(out, error);
  return false;
}

void output_write(output *out) {
  if (output_queued(out)) advance(out);
  if (out->watch) poller_watch_set(out->watch, output_queued(out) ? POLLER_WRITE : 0);
}

void output_send(output *out) {
  if (out->watch) {
    if (output_queued(out)) poller_watch_set(out->watch, POLLER_WRITE);
    return;
  }
  while (output_queued(out) && advance(out)) continue;
}

/* ---- the queue -------------------------------------------------------------- */

buffer *output_reserve(output *out, size_t bytes) {
  buffer *queue = &out->queue;
  if (out->sent > queue->length / 2) {
    buffer_consume(queue, out->sent);
    out->sent = 0;
  }
  if (!buffer_reserve(queue, bytes + 1)) return NULL;
  return queue;
}
