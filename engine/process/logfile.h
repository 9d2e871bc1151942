/* A file that lines are added to, and that is begun anew when it has grown too large: the old
 * one is then `PATH.1`, that before it `PATH.2` and so on. A full disk loses lines, which are
 * counted, and nothing else. */
#ifndef LP_PROCESS_LOGFILE_H
#define LP_PROCESS_LOGFILE_H

#include <stddef.h>

#include "base/status.h"

enum { LOGFILE_OLD = 3 /* files that are kept beside the one written to */ };

typedef struct logfile logfile;

/* Opens `path`, empty; its folders are made. When another program that lives writes to it, it is
 * `path_1`, or the next number that is free. `limit_bytes`: see above; 0: none. */
lp_status logfile_open(const char *path, size_t limit_bytes, logfile **out, fault *fault);
void logfile_close(logfile *file);             /* accepts NULL */
const char *logfile_path(const logfile *file); /* with its number */
/* Adds lines; the last one gets a newline when it has none. */
void logfile_write(logfile *file, const char *text, size_t length);
/* Bytes that could not be written, and in `cause` the first errno. */
size_t logfile_lost(const logfile *file, int *cause);

#endif
