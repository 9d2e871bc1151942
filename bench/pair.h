/* Two processes and a stream socket between them, for the floors that talk: the parent
 * is the client (side 0), a child the server (side 1). Both ends are non-blocking and
 * each has an epoll of its own, as any event loop would. */
#ifndef LP_BENCH_PAIR_H
#define LP_BENCH_PAIR_H

#include "floor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct peer {
  int fd, epoll;
} peer;

static inline void pair_tcp(int fds[2]) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t size = sizeof address;
  int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1) ||
      getsockname(listener, (struct sockaddr *)&address, &size))
    floor_die("listen");
  fds[0] = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(fds[0], (struct sockaddr *)&address, size)) floor_die("connect");
  fds[1] = accept(listener, NULL, NULL);
  close(listener);
  for (int i = 0; i < 2; i++)
    if (setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one)) floor_die("TCP_NODELAY");
}

static inline void pair_open(const char *link, int fds[2]) {
  if (!strcmp(link, "tcp")) return pair_tcp(fds);
  if (strcmp(link, "unix")) {
    fprintf(stderr, "--link takes unix or tcp\n");
    exit(2);
  }
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds)) floor_die("socketpair");
}

static inline peer peer_open(int fd) {
  peer self = {fd, epoll_create1(0)};
  struct epoll_event event = {.events = EPOLLIN};
  if (fcntl(fd, F_SETFL, O_NONBLOCK) || epoll_ctl(self.epoll, EPOLL_CTL_ADD, fd, &event))
    floor_die("epoll");
  return self;
}

/* Sleeps until the socket is ready for what it waits for. */
static inline void peer_wait(peer *self) {
  struct epoll_event event;
  while (epoll_wait(self->epoll, &event, 1, -1) < 0)
    if (errno != EINTR) floor_die("epoll_wait");
}

static inline void peer_want(peer *self, uint32_t events) {
  struct epoll_event event = {.events = events};
  if (epoll_ctl(self->epoll, EPOLL_CTL_MOD, self->fd, &event)) floor_die("epoll_ctl");
}

/* Waits, then reads once. 0: the other side closed. */
static inline size_t peer_read(peer *self, char *bytes, size_t size) {
  for (;;) {
    peer_wait(self);
    ssize_t got = read(self->fd, bytes, size);
    if (got >= 0) return (size_t)got;
    if (errno == ECONNRESET) return 0;
    if (errno != EAGAIN && errno != EINTR) floor_die("read");
  }
}

static inline void peer_write(peer *self, const char *bytes, size_t size) {
  ssize_t sent = write(self->fd, bytes, size);
  size_t done = sent > 0 ? (size_t)sent : 0;
  if (done == size) return;
  peer_want(self, EPOLLOUT);
  while (done < size) {
    peer_wait(self);
    sent = write(self->fd, bytes + done, size - done);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) floor_die("write");
    if (sent > 0) done += (size_t)sent;
  }
  peer_want(self, EPOLLIN);
}

/* Starts `serve` in a child, which ends with us; returns its process id. */
static inline pid_t pair_fork(const floor_args *args, int fds[2],
                              void (*serve)(const floor_args *args, peer *self)) {
  pid_t child = fork();
  if (child < 0) floor_die("fork");
  if (child) {
    close(fds[1]);
    return child;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  close(fds[0]);
  floor_pin(args, 1);
  peer self = peer_open(fds[1]);
  serve(args, &self);
  _exit(0);
}

static inline void pair_close(peer *self, pid_t child) {
  int status;
  close(self->fd);
  close(self->epoll);
  if (waitpid(child, &status, 0) != child || status) floor_die("the server side");
}

#endif
