/* Runs of an embedding program; see embed_run.c. */
#ifndef LP_API_EMBED_RUN_H
#define LP_API_EMBED_RUN_H

#include "api/embed.h"

/* The engine is being closed: all have ended. */
void embed_runs_close(lp_engine *engine);

#endif
