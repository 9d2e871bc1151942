/* Orphans: what a descendant leaves running becomes our child when it ends (descendants_adopt), and
 * a zombie when it ends itself. Those are reaped here now and then; children that somebody of ours
 * waits for are entered before, so that their status is still there for him.
 *
 * For the command only: a host's children are not ours to wait for. Which children there are is a
 * matter of the process and of no engine, and so is the list of those that are awaited. */
#ifndef LP_PROCESS_ORPHANS_H
#define LP_PROCESS_ORPHANS_H

#include <sys/types.h>

#include "base/list.h"

/* A child that its starter waits for by its number. */
typedef struct awaited {
  list link;
  pid_t pid;
} awaited;

/* Around the start of such a child, so that it cannot be taken for an orphan in between. `pid`: 0
 * or less when none was started. Nothing may be raised in between. */
void awaited_begin(void);
void awaited_end(awaited *child, pid_t pid);
/* It has been waited for. */
void awaited_forget(awaited *child);

/* Reaps the orphans that had ended at the last call already; from one thread, a second or so apart.
 * What C code starts without entering it has that time to be waited for. */
void orphans_reap(void);

#endif
