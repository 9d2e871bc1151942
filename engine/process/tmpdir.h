/* Private temporary folders of processes: `lp-tmp.PID.XXXXXX` in $TMPDIR or /tmp, where PID is
 * the process that made it and will remove it. Not in the run folder, which is small and
 * often in memory. */
#ifndef LP_PROCESS_TMPDIR_H
#define LP_PROCESS_TMPDIR_H

#include <stddef.h>

#include "base/status.h"

/* Makes one, for us alone; its path in `out`. */
lp_status tmpdir_create(char *out, size_t size, fault *fault);
/* Removes one with all that is in it; a path that is none of these is left alone. */
void tmpdir_remove(const char *path);
/* Removes those of this user whose makers have ended without. */
void tmpdir_sweep(void);

#endif
