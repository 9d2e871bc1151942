/* The guard: a small process beside the command that waits for the command's end and kills
 * what is left of it, for the one end that lets nobody clean up, SIGKILL. Node processes
 * look after themselves; this is about what nodes in threads have started. */
#ifndef LP_PROCESS_GUARD_H
#define LP_PROCESS_GUARD_H

#include "process/orphans.h"

typedef struct guard {
  awaited child; /* pid 0: none was needed yet */
} guard;

/* Marks our environment, which tells the guard what we have started. Before there are
 * threads. */
void guard_prepare(void);
/* Starts it; one caller at a time. Without descriptors or memory there is none. */
void guard_start(guard *guard);
/* Ends it: we end in order. */
void guard_stop(guard *guard);
/* What the guard does: `lp --guard PID GROUP`; its exit status. */
int guard_main(const char *pid, const char *group);

#endif
