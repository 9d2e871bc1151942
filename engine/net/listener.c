/* See listener.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "net/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

enum {
  BACKLOG = 4096,
  ACCEPTS_PER_EVENT = 64, /* then the loop's other work has its turn */
  LOCK_ATTEMPTS = 500     /* at a millisecond each */
};

struct listener {
  poller_watch *watch; /* owned */
  listener_fn fn;
  void *owner;
  int fd; /* owned; -1 once freed */
  bool paused;
  int busy; /* event handlers on the C stack: they free the memory, not listener_free */
};

/* --- binding --- */

typedef struct binding {
  const address *address;
  struct sockaddr_storage where;
  socklen_t length;
  char text[ADDRESS_NAME + 16];
} binding;

static lp_status status_of_errno(int error) {
  switch (error) {
    case EADDRINUSE: return LP_ALREADY_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS: return LP_PERMISSION_DENIED;
    case ENOENT:
    case ENOTDIR: return LP_NOT_FOUND;
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
    case ELOOP: return LP_INVALID_ARGUMENT;
    default: return LP_RESOURCE_EXHAUSTED;
  }
}

static lp_status cannot_listen(const binding *to, int error, fault *why) {
  return fault_set(why, status_of_errno(error), "cannot listen on %s: %s", to->text,
                   strerror(error));
}

static int open_socket(int family) {
  return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* 0, or the errno of a connection attempt to the address. */
static int probe(const binding *to) {
  int fd = open_socket(to->where.ss_family);
  if (fd < 0) return errno;
  int error = connect(fd, (const struct sockaddr *)&to->where, to->length) ? errno : 0;
  close(fd);
  return error;
}

/* Removes a socket file on which nobody listens any more. */
static lp_status remove_stale(const binding *to, fault *why) {
  struct stat status;
  const char *path = to->address->name;
  if (lstat(path, &status)) return errno == ENOENT ? LP_OK : cannot_listen(to, errno, why);
  if (!S_ISSOCK(status.st_mode))
    return fault_set(why, LP_ALREADY_EXISTS,
                     "cannot listen on %s: there is a file of this name that is no socket",
                     to->text);
  int error = probe(to);
  if (error == ENOENT) return LP_OK;
  if (error == 0 || error == EAGAIN || error == EPROTOTYPE)
    return fault_set(why, LP_ALREADY_EXISTS, "cannot listen on %s: another program serves it",
                     to->text);
  if (error != ECONNREFUSED) return cannot_listen(to, error, why);
  return unlink(path) && errno != ENOENT ? cannot_listen(to, errno, why) : LP_OK;
}

/* A new file takes its mode from the socket, so it is never open to others. */
static lp_status bind_unix(const binding *to, int fd, fault *why) {
  const struct sockaddr *where = (const struct sockaddr *)&to->where;
  if (fchmod(fd, 0600)) return cannot_listen(to, errno, why);
  if (!bind(fd, where, to->length)) return LP_OK;
  if (errno != EADDRINUSE) return cannot_listen(to, errno, why);
  lp_status status = remove_stale(to, why);
  if (status) return status;
  return bind(fd, where, to->length) ? cannot_listen(to, errno, why) : LP_OK;
}

static lp_status bind_tcp(const binding *to, int fd, fault *why) {
  int yes = 1;
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) ||
      bind(fd, (const struct sockaddr *)&to->where, to->length))
    return cannot_listen(to, errno, why);
  return LP_OK;
}

/* Of several that find a stale file (or a fresh one whose owner does not listen yet) only one
 * may replace it, hence a lock on the folder. A folder that cannot be locked is not fought
 * over: whoever keeps it locked is no binder. Returns a descriptor to close, or -1. */
static int lock_folder(const char *path) {
  char folder[ADDRESS_NAME] = ".";
  const char *slash = strrchr(path, '/');
  if (slash) memcpy(folder, path, (size_t)(slash - path) + 1);
  if (slash) folder[slash - path + 1] = 0;
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  for (int i = 0; i < LOCK_ATTEMPTS && flock(fd, LOCK_EX | LOCK_NB); i++) poll(NULL, 0, 1);
  return fd;
}

static lp_status bind_and_listen(const binding *to, int fd, fault *why) {
  bool is_unix = to->address->kind == ADDRESS_UNIX;
  int lock = is_unix ? lock_folder(to->address->name) : -1;
  lp_status status = is_unix ? bind_unix(to, fd, why) : bind_tcp(to, fd, why);
  if (!status && listen(fd, BACKLOG)) status = cannot_listen(to, errno, why);
  if (lock >= 0) close(lock);
  return status;
}

/* The address with the port the system chose. */
static void read_port(int fd, address *bound) {
  struct sockaddr_storage where;
  socklen_t length = sizeof where;
  if (bound->kind != ADDRESS_TCP || getsockname(fd, (struct sockaddr *)&where, &length)) return;
  if (where.ss_family == AF_INET)
    bound->port = ntohs(((struct sockaddr_in *)(void *)&where)->sin_port);
  else
    bound->port = ntohs(((struct sockaddr_in6 *)(void *)&where)->sin6_port);
}

lp_status listener_bind(const address *self, int *fd, address *bound, fault *why) {
  binding to = {.address = self};
  lp_status status = address_resolve(self, &to.where, &to.length, why);
  if (status) return status;
  address_format(self, to.text, sizeof to.text);
  int opened = open_socket(to.where.ss_family);
  if (opened < 0) return cannot_listen(&to, errno, why);
  status = bind_and_listen(&to, opened, why);
  if (status) {
    close(opened);
    return status;
  }
  *fd = opened;
  if (bound) {
    *bound = *self;
    read_port(opened, bound);
  }
  return LP_OK;
}

/* --- accepting --- */

static void pause_accepting(listener *self) {
  self->paused = true;
  poller_watch_set(self->watch, 0);
  self->fn(self->owner, -1);
}

/* True when another may be waiting. What concerns one connection ends that one only; anything
 * else (descriptors or memory are out, mostly) will not be better at once. */
static bool accept_one(listener *self) {
  int fd = accept4(self->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd >= 0) {
    self->fn(self->owner, fd);
    return true;
  }
  if (errno == ECONNABORTED || errno == EINTR || errno == EPERM) return true;
  if (errno != EAGAIN && errno != EWOULDBLOCK) pause_accepting(self);
  return false;
}

static void on_event(void *owner, unsigned events) {
  listener *self = owner;
  self->busy++;
  if (events & POLLER_FAILED) pause_accepting(self);
  for (int i = 0; i < ACCEPTS_PER_EVENT; i++)
    if (self->fd < 0 || self->paused || !accept_one(self)) break;
  self->busy--;
  if (self->fd < 0 && !self->busy) mem_free(self);
}

listener *listener_new(poller *loop, int fd, listener_fn fn, void *owner) {
  listener *self = mem_new(sizeof *self);
  if (self) {
    *self = (listener){.fn = fn, .owner = owner, .fd = fd};
    self->watch = poller_watch_new(loop, fd, POLLER_READ, on_event, self);
    if (self->watch) return self;
  }
  mem_free(self);
  close(fd);
  return NULL;
}

int listener_paused(const listener *self) {
  return self->paused;
}

void listener_resume(listener *self) {
  self->paused = false;
  poller_watch_set(self->watch, POLLER_READ);
}

bool listener_same_user(int fd) {
  struct ucred other;
  socklen_t length = sizeof other;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &length)) return false;
  return other.uid == geteuid() || other.uid == 0;
}

void listener_free(listener *self) {
  if (!self) return;
  poller_watch_free(self->watch);
  self->watch = NULL;
  close(self->fd);
  self->fd = -1;
  if (!self->busy) mem_free(self);
}
