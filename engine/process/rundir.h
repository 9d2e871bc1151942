/* The run folder: where a run keeps its sockets and its manifest, so that other commands
 * on the machine find it. $XDG_RUNTIME_DIR/lp/RUN, or when that is not set, no folder of
 * ours or writable by others /tmp/lp-UID/RUN; every folder of ours is 0700, owned by us
 * and no symbolic link, or it is refused. A run holds a lock (flock) on its folder's file `lock`; a
 * folder whose lock is free is stale and removed by the next command that looks. */
#ifndef LP_PROCESS_RUNDIR_H
#define LP_PROCESS_RUNDIR_H

#include <stddef.h>

#include "base/status.h"

enum { RUNDIR_PATH = 80 }; /* leaves room for a socket's name within 107 bytes */

typedef struct rundir {
  char path[RUNDIR_PATH];
  int lock_fd; /* holds the lock; -1 when not open */
} rundir;

/* Makes and locks the folder of run `id` (letters, digits, - and _ only); what cannot be
 * made, belongs to somebody else, has other rights, is a link or is too long is
 * refused with the path and the remedy. */
lp_status rundir_create(const char *id, rundir *out, fault *fault);
/* Writes `text` as the file `name` in the folder, whole or not at all (renamed into place). */
lp_status rundir_write(const rundir *dir, const char *name, const char *text, size_t length,
                       fault *fault);
/* Removes the folder with everything in it and lets the lock go. */
void rundir_remove(rundir *dir);

/* The folder that holds all runs of this user; created when missing. */
lp_status rundir_base(char *out, size_t size, fault *fault);
/* Calls `fn` with each live run's id and path; stale folders are removed on the way. */
typedef void (*rundir_fn)(void *owner, const char *id, const char *path);
lp_status rundir_each(rundir_fn fn, void *owner, fault *fault);
/* Removes the folder at `path` unless somebody holds its lock: for a node process whose
 * launcher died. True when it is gone. */
int rundir_sweep(const char *path);

#endif
