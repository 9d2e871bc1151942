/* Waiting for descriptors: the six calls the engine needs, over libev. Nothing above
 * this file knows libev. A poller belongs to one thread. */
#ifndef LP_NET_POLLER_H
#define LP_NET_POLLER_H

#include <stdint.h>

typedef struct poller poller;
typedef struct poller_watch poller_watch;

/* POLLER_FAILED is only reported: the kernel would not watch the descriptor (it ran out of
 * memory or watches), and the watch is off until it is set again. */
enum { POLLER_READ = 1, POLLER_WRITE = 2, POLLER_FAILED = 4 };

/* Called by poller_wait with the events that came (POLLER_*; after a hang-up or an error
 * of the descriptor both READ and WRITE, as far as they are watched). It may free its own
 * and any other watch of the poller, and may run poller_wait. */
typedef void (*poller_fn)(void *owner, unsigned events);

/* NULL when memory or descriptors are out. Never libev's default loop (which would
 * take SIGCHLD); no signal is blocked or handled. */
poller *poller_new(void);
/* Every watch must have been freed. Accepts NULL. */
void poller_free(poller *poller);

/* Watches `fd` for `events` (0: none yet). The poller owns neither. NULL: memory is
 * out, or the descriptor is of a kind that cannot be polled (a plain file, /dev/null).
 * The watch must be freed before the descriptor is closed. */
poller_watch *poller_watch_new(poller *poller, int fd, unsigned events, poller_fn fn, void *owner);
void poller_watch_set(poller_watch *watch, unsigned events);
/* Stops watching; does not close the descriptor. Accepts NULL. */
void poller_watch_free(poller_watch *watch);

/* Has the same descriptors and events watched by the epoll descriptor `epoll_fd` (borrowed; -1:
 * no more), which is then readable when poller_wait has something to call. From now on:
 * watches that exist are to be set again. */
void poller_mirror(poller *poller, int epoll_fd);

/* Watches there are, whether set or not. */
int poller_watches(const poller *poller);

/* Waits for events at most `timeout_ns` (0: looks only, negative: for ever; rounded up to
 * a millisecond) and calls the watches that are due. It may return before its time
 * without an event. */
void poller_wait(poller *poller, int64_t timeout_ns);

#endif
