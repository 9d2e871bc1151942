/* A listening socket. Created in two steps, because a socket may be bound by one
 * thread and served by another: the service thread binds a node's address, the node's
 * loop accepts. */
#ifndef LP_NET_LISTENER_H
#define LP_NET_LISTENER_H

#include <stdbool.h>

#include "base/status.h"
#include "net/address.h"
#include "net/poller.h"

/* Binds and listens; the descriptor (CLOEXEC, non-blocking) into `fd`, the address with
 * the port that was bound into `bound` (may be NULL). A stale Unix socket file (nobody
 * answers on it) is replaced; one that answers gives already_exists. The file is
 * created with mode 0600. */
lp_status listener_bind(const address *address, int *fd, struct address *bound, fault *fault);

typedef struct listener listener;
/* A connection came; the callee owns `fd`. -1: descriptors ran out, and it has paused. */
typedef void (*listener_fn)(void *owner, int fd);

/* Accepts on `fd` and takes it over (on failure too: it is then closed, NULL returned).
 * When descriptors run out it pauses instead of spinning, and calls `fn` with -1; the owner's
 * timer is to call listener_resume, after 100 ms or so. */
listener *listener_new(poller *poller, int fd, listener_fn fn, void *owner);
int listener_paused(const listener *listener);
void listener_resume(listener *listener);
/* Does the process at the other end of a connected Unix socket run as our user, or as root? */
bool listener_same_user(int fd);
/* Closes the socket; does not remove a Unix socket's file. Accepts NULL. */
void listener_free(listener *listener);

#endif
