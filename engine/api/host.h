/* The host of an engine: its service thread with everything only that thread may touch,
 * loops for nodes, child processes, output, signals. The policy (what to start, when to
 * stop, what to report) is Lua in the service's own interpreter, which reaches this file
 * through the functions of lp.core.host. */
#ifndef LP_API_HOST_H
#define LP_API_HOST_H

#include <stdbool.h>

#include "api/core.h"
#include "runtime/engine.h"

typedef struct host host;

typedef struct host_options {
  boot service;                     /* the policy's module and entry */
  lua_CFunction open;               /* adds to the service's lp.core, as in node_request; or NULL */
  bool colour;                      /* of prefixes */
  bool bare;                        /* no prefixes at all: another process adds them */
  void (*on_child)(engine *engine); /* as in engine; or NULL */
  bool adopts;                      /* orphans become our children, see orphans.h */
  const char *command;              /* for node processes; NULL: this program */
  bool hooked;                      /* as in engine */
  /* Instead of stdout and stderr; on the service thread. `kind` as lp_output_kind; `name` of the
   * node, `bytes` to be taken off engine.output_queued when they were dealt with. */
  void (*output)(void *owner, int kind, const char *name, const char *text, size_t length,
                 size_t bytes);
  void *owner;
  const struct native_body *(*native)(engine *engine, const char *name);      /* as in engine */
  void *(*allocate)(void *user, void *block, size_t old_bytes, size_t bytes); /* as in engine */
  void *allocate_user;
  int signal_fd; /* non-blocking; each byte is a signal number for the policy; -1: none */
} host_options;

/* Makes the engine and its service loop, which its creator then either starts a thread for
 * (loop_start) or turns itself. NULL with fault. */
host *host_new(const host_options *options, fault *fault);
/* Tells the policy's functions of a node that lives on the creator's own loop, so that it
 * can be stopped as any other. Before the service loop runs. False: memory. */
bool host_adopt(host *host, loop *loop, uint64_t id);
/* The adopted node has ended and its loop is about to be freed; any thread but the
 * service's. */
void host_forget_adopted(host *host);
engine *host_engine(host *host);
loop *host_service_loop(host *host);

/* Frees a host whose service thread was never started and that adopted nothing. */
void host_abandon(host *host);

/* Ends the service and frees all. False when nodes are left that could not be stopped: then
 * everything stays as it is, and only the end of the process helps. */
bool host_free(host *host);

#endif
