/* What a process sets for itself before it runs anything: priority and processor cores. Before
 * there are threads, which inherit both. */
#ifndef LP_PROCESS_LIMITS_H
#define LP_PROCESS_LIMITS_H

#include "base/status.h"

/* `nice` is added to the niceness ("5"); `affinity` lists cores ("0,2,3"); NULL: left as it is. */
lp_status limits_apply(const char *nice, const char *affinity, fault *fault);

#endif
